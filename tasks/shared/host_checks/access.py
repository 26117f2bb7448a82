"""Will sudo do for pyinfra?"""

import re
from collections.abc import Iterator

from tasks.shared.facts.access import Access
from tasks.shared.host_checks.findings import Finding, is_below, ok, refusal, threshold, warning

_CLASSIC = "sudo update-alternatives --set sudo /usr/bin/sudo.ws"


def judge(access: Access) -> Iterator[Finding]:
    """sudo's kind and version, and whether it asks for a password. A password is no obstacle."""
    if access.user == "0":
        yield ok("sudo", "is not needed")
        return
    if not access.sudo:
        yield refusal("sudo", "not installed", "sudo", "log in as root, or: apt-get install sudo")
        return
    rust = re.match(r"sudo-rs (\S+)", access.sudo)
    if rust and is_below(rust[1], "sudo_rs_refused_below"):
        yield refusal(
            "sudo",
            access.sudo,
            f"sudo-rs {threshold('sudo_rs_refused_below')} or newer, or the classic sudo",
            f"run on the host: {_CLASSIC}",
        )
    elif rust and not access.unasked:
        yield warning(
            "sudo",
            f"{access.sudo} asks for a password",
            "no password, or the classic sudo",
            f"if pyinfra does not see its prompt, run on the host: {_CLASSIC}",
        )
    else:
        asks = "" if access.unasked else ", asks for a password: pyinfra passes the question on"
        yield ok("sudo", f"{access.sudo}{asks}")
