"""What a run would look up or download is out of reach."""

from .fault import Fault

NETWORK = (
    Fault(
        "network",
        "nothing can be looked up in the DNS, and nothing has to change",
        "/etc/resolv.conf",
        "keep /etc/resolv.conf; rm /etc/resolv.conf; echo nameserver 127.0.0.9 >/etc/resolv.conf",
        "put_back /etc/resolv.conf",
    ),
)
