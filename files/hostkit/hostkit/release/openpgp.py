"""Just enough of OpenPGP (RFC 4880) to tell which keys a file holds, without gpg."""

import base64
import binascii
import hashlib
from collections.abc import Iterator

_PUBLIC_KEY = 6
_BEGIN, _END = b"-----BEGIN PGP PUBLIC KEY BLOCK-----", b"-----END PGP PUBLIC KEY BLOCK-----"


def dearmored(content: bytes) -> bytes:
    """The binary form of a key file that may be ASCII-armored. ValueError when it is damaged."""
    if _BEGIN not in content:
        return content
    block = content.split(_BEGIN, 1)[1].split(_END, 1)[0]
    lines = block.replace(b"\r\n", b"\n").strip(b"\n").split(b"\n")
    if b"" in lines:  # armor headers end with an empty line
        lines = lines[lines.index(b"") + 1 :]
    body = b"".join(line for line in lines if not line.startswith(b"="))  # = is the checksum
    try:
        return base64.b64decode(body, validate=True)
    except binascii.Error as error:
        raise ValueError(f"not a key: {error}") from None


def fingerprints(content: bytes) -> list[str]:
    """Fingerprints, 40 upper-case hex digits, of the primary keys in a file; subkeys are theirs.

    Raises ValueError when the content is not a sequence of OpenPGP packets.
    """
    found = []
    for tag, body in _packets(dearmored(content)):
        if tag == _PUBLIC_KEY:
            if body[:1] != b"\x04":
                raise ValueError("not a key of version 4")
            prefix = b"\x99" + len(body).to_bytes(2, "big")
            found.append(hashlib.sha1(prefix + body).hexdigest().upper())
    return found


def _packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position < len(data):
        head = data[position]
        position += 1
        if not head & 0x80:
            raise ValueError("not an OpenPGP key file")
        if head & 0x40:
            tag, (length, size) = head & 0x3F, _new_length(data[position : position + 5])
        else:
            tag, size = (head >> 2) & 0x0F, (1, 2, 4, 0)[head & 3]
            length = int.from_bytes(data[position : position + size], "big")
            if not size:
                raise ValueError("not an OpenPGP key file: a packet without a length")
        position += size
        if position + length > len(data):
            raise ValueError("not a whole OpenPGP key file")
        yield tag, data[position : position + length]
        position += length


def _new_length(octets: bytes) -> tuple[int, int]:
    """(length of the body, number of octets that said so)."""
    if not octets:
        raise ValueError("not a whole OpenPGP key file")
    first = octets[0]
    if first < 192:
        return first, 1
    if first < 224 and len(octets) > 1:
        return ((first - 192) << 8) + octets[1] + 192, 2
    if first == 255 and len(octets) == 5:
        return int.from_bytes(octets[1:5], "big"), 5
    raise ValueError("not an OpenPGP key file: partial lengths")
