"""The host around it: its users, its clock, names that are no text, apt, what a user does."""

from .fault import Fault

_FUTURE = "'2036-01-01'"
_OURS = "/opt/vllm/generations /opt/vllm/inputs /opt/vllm/hostkit.d /var/lib/vllm /etc/vllm"

HOST = (
    Fault(
        "users",
        "the service's user is gone",
        "/etc/passwd, /etc/shadow",
        "sed -i /^vllm:/d /etc/passwd /etc/shadow",
    ),
    Fault(
        "users",
        "the service's user and group are gone",
        "/etc/passwd, /etc/group",
        "sed -i /^vllm:/d /etc/passwd /etc/shadow /etc/group /etc/gshadow",
    ),
    Fault(
        "users",
        "the service's user was given a shell",
        "/etc/passwd",
        "usermod --shell /bin/bash vllm",
    ),
    Fault(
        "users",
        "the service's home is root's",
        "/var/lib/vllm/home",
        "chown -R root: /var/lib/vllm/home; chmod 700 /var/lib/vllm/home",
    ),
    Fault(
        "clock",
        "the clock was years ahead: every file is of the future",
        "/opt/vllm, /var/lib/vllm, /etc/vllm, the timers' stamps",
        f"find {_OURS} -exec touch -h -d {_FUTURE} {{}} +; "
        f"touch -d {_FUTURE} /var/lib/systemd/timers/* 2>/dev/null || true; "
        'sed -i \'s/"at": [0-9.]*/"at": 2082758400.5/\' /var/lib/vllm/health/good.json',
    ),
    Fault(
        "clock",
        "the clock stood at 1970: every file is of then",
        "/opt/vllm, /var/lib/vllm, /etc/vllm",
        f"find {_OURS} -exec touch -h -d @1 {{}} +; "
        'sed -i \'s/"at": [0-9.]*/"at": 1.0/\' /var/lib/vllm/health/good.json',
    ),
    Fault(
        "no text",
        "names that are no UTF-8 lie among ours",
        "/opt/vllm/*, /var/lib/vllm/*, /etc/vllm",
        "for each in /opt/vllm /opt/vllm/releases /opt/vllm/generations /opt/vllm/generations/$N "
        "/opt/vllm/inputs /opt/vllm/hostkit /var/lib/vllm /var/lib/vllm/models $M /etc/vllm "
        "/var/lib/vllm/health; do touch \"$each/$(printf 'a\\377 b\\nc')\"; done",
        "for each in /opt/vllm /opt/vllm/releases /opt/vllm/generations /opt/vllm/generations/$N "
        "/opt/vllm/inputs /opt/vllm/hostkit /var/lib/vllm /var/lib/vllm/models $M /etc/vllm "
        "/var/lib/vllm/health; do rm -f \"$each/$(printf 'a\\377 b\\nc')\"; done",
    ),
    Fault(
        "no text",
        "a program whose name is no UTF-8 runs beside the server",
        "/proc",
        "cp /bin/sleep \"/srv/$(printf 'a\\377 b')\"; systemd-run --quiet --collect --unit=odd "
        'sh -c \'exec "/srv/$(printf "a\\377 b")" 600\'; sleep 0.3',
        "systemctl stop odd; rm \"/srv/$(printf 'a\\377 b')\"",
    ),
    Fault(
        "no text",
        "a file of hostkit is no text",
        "/opt/vllm/hostkit",
        "junk /opt/vllm/hostkit/hostkit/metrics/figures.py",
    ),
    Fault(
        "mounts",
        "something is mounted whose name has a space and a line break",
        "/srv",
        'd="/srv/$(printf \'a b\\nc\')"; mkdir "$d"; mount -t tmpfs none "$d"',
        'd="/srv/$(printf \'a b\\nc\')"; umount "$d"; rmdir "$d"',
    ),
    Fault(
        "apt",
        "a source of packages is broken, and no package is missing",
        "/etc/apt/sources.list.d",
        "echo 'deb broken' >/etc/apt/sources.list.d/mine.list",
        "rm /etc/apt/sources.list.d/mine.list",
    ),
    Fault(
        "apt",
        "a source of packages is broken, and a package is missing",
        "/etc/apt/sources.list.d",
        "echo 'deb broken' >/etc/apt/sources.list.d/mine.list; "
        "dpkg --force-depends --purge libnuma1 >/dev/null",
        "rm /etc/apt/sources.list.d/mine.list",
        said=("mine.list",),
    ),
    Fault(
        "apt",
        "another apt holds its lock for half a minute, and a package is missing",
        "/var/lib/dpkg/lock-frontend",
        "dpkg --force-depends --purge libnuma1 >/dev/null; systemd-run --quiet --collect "
        "--unit=other-apt python3 -c 'import fcntl, time; "
        'f = open("/var/lib/dpkg/lock-frontend", "w"); '
        "fcntl.lockf(f, fcntl.LOCK_EX); time.sleep(30)'; sleep 0.5",
        "systemctl stop other-apt 2>/dev/null || true",
    ),
    Fault(
        "operators",
        "another operator restarts the server",
        "/run/vllm/switch.lock",
        "systemd-run --quiet --collect --unit=ann python3 -IB /opt/vllm/hostkit switch $N "
        "--deadline 60 --wait 60 --by ann@desk --doing 'testing this'; sleep 0.1; "
        "until grep -q ann@desk /run/vllm/switch.lock; do sleep 0.05; done",
        "systemctl stop ann 2>/dev/null || true; systemctl start vllm",
        said=("ann@desk is testing this since", "wait until that has ended"),
        task="tasks/restart_vllm.py",
        data=("--data", 'extra_env={"STANDIN_START_S": "8"}'),
        untouched=False,
    ),
)
