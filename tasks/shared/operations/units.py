"""systemd units."""

import shlex

from pyinfra import host
from pyinfra.api import QuoteString, StringCommand, operation

from tasks.shared.facts.hostkit import HostStateFact
from tasks.shared.facts.units import UNITS_DIR, UnitFact, UnitFiles, UnitIsOn
from tasks.shared.operations.common import Commands, leave_open, publish_text, show_differences
from tasks.shared.operations.hostkit import Hostkit
from tasks.shared.trees import Tree, pack


@operation()
def in_force() -> Commands:
    """Ensure that systemd works with the unit of the current generation.

    A switch brings its unit along; this makes up for one that was edited by hand or interrupted,
    and for a link to the current generation that was lost.

    units.in_force(name="Keep the current generation's unit in force")
    """
    present = host.get_fact(HostStateFact)
    if present.unknown:
        yield from leave_open(present.unknown)
        return
    if present.unit_in_force and not present.lost_current:
        host.noop("the current generation's unit is in force")
        return
    yield Hostkit("install-unit")


@operation()
def timer(unit: str, files: dict[str, str] | None) -> Commands:
    """Ensure that a timer runs with exactly these files, or that it is gone.

    + unit: its name without a suffix
    + files: the content of `<unit>.service` and `<unit>.timer` by file name; None removes both

    units.timer(name="Look for hangs", unit="vllm-watch", files=templates.watch(settings()))
    """
    names = [f"{unit}.service", f"{unit}.timer"]
    timer_unit = names[1]
    present = {n: text for n, text in host.get_fact(UnitFiles, names=names).items() if text}
    if files is None:
        if not present:
            host.noop(f"there is no {timer_unit}")
            return
        removed = " ".join(shlex.quote(f"{UNITS_DIR}/{name}") for name in names)
        yield StringCommand(
            "systemctl disable --quiet --now", QuoteString(timer_unit), "2>/dev/null;",
            "rm -f", removed, "&& systemctl daemon-reload",
        )  # fmt: skip
        return
    if present == files and host.get_fact(UnitIsOn, unit=timer_unit):
        host.noop(f"{timer_unit} is on")
        return
    wanted: Tree = dict(files)
    show_differences(UNITS_DIR, dict(present), wanted)
    script = (
        f"set -e; umask 022; new=$(mktemp -d {UNITS_DIR}/.{unit}.XXXXXX); "
        "base64 -d | tar -C $new --no-same-owner -xzf -; "
        f"mv -f $new/* {UNITS_DIR}/; rmdir $new; systemctl daemon-reload; "
        f"systemctl enable --quiet {timer_unit}; systemctl restart {timer_unit}"
    )
    yield StringCommand("sh -c", QuoteString(script), _stdin=[pack(wanted)])


@operation()
def running(unit: str, text: str) -> Commands:
    """Ensure that a unit has this text, is enabled and runs; one whose text changes is restarted.

    Not for the server's unit, which belongs to its generation.

    + unit: for instance "vllm-guard.service", or a timer
    + text: the whole unit file

    units.running(name="Run the guard", unit="vllm-guard.service", text=templates.guard_unit(s))
    """
    present = host.get_fact(UnitFact, unit=unit)
    changed = present.text != text
    if not changed and present.is_in_force:
        host.noop(f"{unit} runs")
        return
    if changed:
        show_differences(UNITS_DIR, {unit: present.text} if present.text else {}, {unit: text})
        yield publish_text(f"{UNITS_DIR}/{unit}", text)
    name = QuoteString(unit)
    yield StringCommand(
        "systemctl daemon-reload && systemctl --quiet enable", name, "&& systemctl restart", name
    )


@operation()
def absent(unit: str) -> Commands:
    """Ensure that a unit of ours is stopped and gone.

    units.absent(name="Run no Prometheus", unit="vllm-prometheus.service")
    """
    if not host.get_fact(UnitFact, unit=unit).text:
        host.noop(f"there is no {unit}")
        return
    name, file = QuoteString(unit), QuoteString(f"{UNITS_DIR}/{unit}")
    yield StringCommand(
        "systemctl disable --quiet --now", name, "&& rm -f", file, "&& systemctl daemon-reload"
    )
