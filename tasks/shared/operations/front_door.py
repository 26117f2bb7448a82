"""The front door: its certificate, its configuration, its unit."""

import shlex

from pyinfra import host, state
from pyinfra.api import QuoteString, StringCommand, operation

from tasks.shared import front_door
from tasks.shared.facts import file_access
from tasks.shared.facts.front_door import FrontDoor, FrontDoorFact, OwnCertificateNames
from tasks.shared.facts.units import UNITS_DIR, UnitFact
from tasks.shared.operations.common import Commands, refuse, show_differences

_DAYS = 3650


@operation()
def self_signed(names: list[str]) -> Commands:
    """Ensure a self-signed certificate for these names, with a key that only root can read.

    One that was made for other names, or ends within a month, is replaced. One whose key others
    could read is kept, as clients were given it: the doctor says what to think of it.

    + names: DNS names and IP addresses

    front_door.self_signed(name="Make a certificate", names=["gpu-1.lan", "192.168.1.5"])
    """
    wanted = front_door.alternative_names(names)
    if host.get_fact(OwnCertificateNames) == wanted:
        key = _present(front_door.OWN_CERTIFICATE, front_door.OWN_KEY).key
        if key and key.is_roots_alone():
            host.noop(f"{front_door.OWN_CERTIFICATE} is for {', '.join(names)}")
            return
        yield StringCommand(f"chown root: {front_door.OWN_KEY} && chmod 600 {front_door.OWN_KEY}")
        return
    folder = f"{front_door.FOLDER}/tls"
    # Both files appear at once: a key beside another one's certificate would not start.
    script = (
        f"set -e; umask 077; rm -rf {folder}.new; mkdir -p {folder}.new; cd {folder}.new; "
        f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days {_DAYS} "
        "-subj /CN=vllm-front-door -addext basicConstraints=critical,CA:FALSE "
        "-addext keyUsage=critical,digitalSignature -addext extendedKeyUsage=serverAuth "
        f"-addext {shlex.quote(f'subjectAltName={wanted}')} -keyout key.pem -out certificate.pem; "
        f"printf %s {shlex.quote(wanted)} >names; chmod 644 certificate.pem; "
        f"chmod 755 . {front_door.FOLDER}; sync -f .; rm -rf {folder}; mv -T {folder}.new {folder}"
    )
    yield StringCommand("sh -c", QuoteString(script))


@operation()
def opened(config: str, unit: str, certificate: str, key: str) -> Commands:
    """Ensure that nginx serves with this configuration and certificate, and starts at boot.

    A change of either is loaded without ending a request; one that nginx refuses changes nothing,
    and so does a key that others can read.

    + config: the text of its configuration
    + unit: the text of its unit
    + certificate: the certificate's file on the host
    + key: that of its key

    front_door.opened(name="Open", config=text, unit=unit, certificate="/srv/a.pem", key="/srv/a")
    """
    present = _present(certificate, key)
    # A plan comes before the certificate that its run makes.
    looks = state.is_executing or certificate != front_door.OWN_CERTIFICATE
    if looks and (why := _unusable(present, certificate, key)):
        yield from refuse(why)
        return
    # A renewed certificate is another configuration.
    text = f"# certificate {present.certificate}\n{config}"
    running = host.get_fact(UnitFact, unit=front_door.UNIT)
    unit_is_right = running.text == unit and running.is_in_force
    if unit_is_right and present.config == present.loaded == text:
        host.noop("the front door is open")
        return
    before = {"nginx.conf": present.config} if present.config else {}
    show_differences(front_door.FOLDER, before, {"nginx.conf": text})
    yield from _put(front_door.CONFIG, text, check=True)
    if unit_is_right:
        yield _systemctl("reload", front_door.UNIT)
        return
    show_differences(
        UNITS_DIR, {front_door.UNIT: running.text} if running.text else {}, {front_door.UNIT: unit}
    )
    yield from _put(f"{UNITS_DIR}/{front_door.UNIT}", unit)
    yield StringCommand("systemctl daemon-reload && systemctl --quiet enable", front_door.UNIT)
    yield _systemctl("restart", front_door.UNIT)


@operation()
def closed() -> Commands:
    """Ensure that there is no front door: neither its unit nor its files.

    front_door.closed(name="Have no front door")
    """
    present = _present(front_door.OWN_CERTIFICATE, front_door.OWN_KEY)
    unit = host.get_fact(UnitFact, unit=front_door.UNIT).text
    if not (unit or present.config or present.certificate):
        host.noop("there is no front door")
        return
    yield StringCommand(
        "systemctl disable --quiet --now", front_door.UNIT, "2>/dev/null;",
        f"rm -rf {front_door.FOLDER} {UNITS_DIR}/{front_door.UNIT} && systemctl daemon-reload",
    )  # fmt: skip


def _present(certificate: str, key: str) -> FrontDoor:
    return host.get_fact(FrontDoorFact, certificate=certificate, key=key)


def _unusable(present: FrontDoor, certificate: str, key: str) -> str | None:
    """Why there can be no front door with these files, in one line."""
    if not present.certificate:
        return f"{certificate} is not on the host: see front_door_certificate"
    if present.key is None:
        return f"{key} is not on the host: see front_door_certificate_key"
    if not present.key.is_roots_alone(or_a_groups=True):
        return f"{key} is {present.key}, expected {file_access.WANTED}: {file_access.remedy(key)}"
    return None


def _put(path: str, text: str, *, check: bool = False) -> Commands:
    """Write a file in one step; `check` asks nginx first, in a /tmp of its own."""
    fresh = f"{path}.new"
    yield StringCommand(
        f"umask 022 && mkdir -p {front_door.FOLDER} && cat >{fresh} && sync -f {fresh}",
        _stdin=[text.removesuffix("\n")],
    )
    if check:
        asked = front_door.nginx_command(fresh, "/dev/null")
        sandbox = "systemd-run --quiet --wait --pipe --collect --property=PrivateTmp=yes"
        yield StringCommand(f"{sandbox} {asked} -t -q")
    yield StringCommand(f"mv -fT {fresh} {path}")


def _systemctl(verb: str, unit: str) -> StringCommand:
    """What systemctl does not say itself, why it failed, is the unit's to say."""
    said = f"journalctl --unit={unit} --no-pager --output=cat --lines=5 >&2; exit 1"
    return StringCommand(f"systemctl {verb} {unit} || {{ {said}; }}")
