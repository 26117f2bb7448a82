"""Units, timers and systemd's own services are not as the deploy left them."""

from .fault import Fault

_UNITS = "/etc/systemd/system"
_VLLM = f"{_UNITS}/vllm.service"
_RELOAD = "systemctl daemon-reload"

SYSTEMD = (
    Fault("units", "the unit is gone", _VLLM, f"rm {_VLLM}; {_RELOAD}"),
    Fault("units", "the unit is junk", _VLLM, f"junk {_VLLM}; {_RELOAD}"),
    Fault(
        "units",
        "the unit is masked",
        _VLLM,
        f"rm {_VLLM}; ln -s /dev/null {_VLLM}; {_RELOAD}",
        daily=True,
    ),
    Fault(
        "units",
        "the unit was edited by hand, and systemd not told",
        _VLLM,
        f"sed -i 's/^Restart=.*/Restart=no/' {_VLLM}",
    ),
    Fault(
        "units",
        "a drop-in was added by hand",
        f"{_VLLM}.d/mine.conf",
        f"mkdir {_VLLM}.d; printf '[Service]\\nNice=5\\n' >{_VLLM}.d/mine.conf; {_RELOAD}",
        f"test -e {_VLLM}.d/mine.conf; rm -r {_VLLM}.d; {_RELOAD}",
    ),
    Fault(
        "units",
        "the timer that looks for hangs is masked",
        f"{_UNITS}/vllm-watch.timer",
        f"systemctl stop vllm-watch.timer; rm {_UNITS}/vllm-watch.timer; "
        f"ln -s /dev/null {_UNITS}/vllm-watch.timer; {_RELOAD}",
    ),
    Fault(
        "units",
        "the memory guard is masked",
        f"{_UNITS}/vllm-guard.service",
        f"systemctl stop vllm-guard; rm {_UNITS}/vllm-guard.service; "
        f"ln -s /dev/null {_UNITS}/vllm-guard.service; {_RELOAD}",
    ),
    Fault(
        "units",
        "a unit of somebody else's has failed: systemd is degraded",
        "mine-too.service",
        "systemd-run --quiet --unit=mine-too false; sleep 0.5; "
        "test $(systemctl is-system-running) = degraded",
        "systemctl is-failed mine-too; systemctl reset-failed mine-too",
    ),
    Fault(
        "journald",
        "journald is down while the server is restarted",
        "systemd-journald",
        "systemctl stop systemd-journald.socket systemd-journald-dev-log.socket "
        "systemd-journald-audit.socket systemd-journald 2>/dev/null || true; "
        "! systemctl is-active systemd-journald",
        "systemctl start systemd-journald.socket systemd-journald-dev-log.socket systemd-journald",
        said=("systemctl start systemd-journald",),
        task="tasks/restart_vllm.py",
    ),
    Fault(
        "SSH",
        "sshd is restarted again and again during a run",
        "ssh.service",
        "systemd-run --quiet --collect --unit=restarts sh -c "
        "'for i in 1 2 3 4 5 6; do sleep 0.4; systemctl reset-failed ssh; "
        "systemctl restart ssh; done'",
        "systemctl stop restarts 2>/dev/null || true; systemctl reset-failed ssh || true",
    ),
)
