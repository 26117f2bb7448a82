"""Each folder that a deploy writes to is full, read-only, or has no room for another file.

Imitated by file systems of their own that are laid over the folders: see shell.sh.
"""

from .fault import Fault

_FULL = "No space left on device"
_READ_ONLY = "Read-only file system"
_GENERATIONS = "/opt/vllm/generations"
_MODELS = "/var/lib/vllm/models"
_SETTLE = "/etc/systemd/system/vllm-settle.service"
_GUARD = "/etc/systemd/system/vllm-guard.service"


def _refused(kind: str, name: str, folder: str, change: str, spoil: str, word: str) -> Fault:
    """Something in a folder has to be written again, and the folder takes nothing."""
    undo = f"umount -l {folder}"
    return Fault(kind, name, folder, f"{change}; {spoil} {folder}", undo, said=(word,))


def _full(name: str, folder: str, change: str) -> Fault:
    return _refused("disk full", f"the disk is full {name}", folder, change, "full", _FULL)


DISK = (
    _full("as the API key is written", "/etc/vllm", ": >/etc/vllm/secrets.env"),
    _full("as hostkit is installed", "/opt/vllm/hostkit.d", "rm -r /opt/vllm/hostkit.d/*"),
    _full("as a release's inputs are uploaded", "/opt/vllm/inputs", "rm -r /opt/vllm/inputs/*"),
    Fault(
        "disk full",
        "the disk is full as a model is sent",
        _MODELS,
        f"truncate -s -1 $M/model.safetensors; full {_MODELS}",
        f"umount -l {_MODELS}",
        said=("MiB are free under", "remove models that no generation uses"),
    ),
    _full("as the guard's unit is written", "/etc/systemd/system", f"echo >>{_GUARD}"),
    _full("as another unit is written", "/etc/systemd/system", f"rm {_SETTLE}"),
    Fault(
        "disk full",
        "the disk is full as a generation is staged",
        _GENERATIONS,
        f"full {_GENERATIONS}",
        f"umount -l {_GENERATIONS}",
        said=(_FULL,),
        change=("--data", "max_num_seqs=3"),
        daily=True,
    ),
    Fault(
        "inodes used up",
        "there is room for no more files as a generation is staged",
        _GENERATIONS,
        f"no_inodes {_GENERATIONS}",
        f"umount -l {_GENERATIONS}",
        said=(_FULL,),
        change=("--data", "max_num_seqs=2"),
    ),
    Fault(
        "disk full",
        "/tmp is full",
        "/tmp",
        f"full /tmp; rm {_SETTLE}; echo >>{_GUARD}",
        "umount -l /tmp",
    ),
    Fault(
        "disk full",
        "/run/vllm is full as a restart begins",
        "/run/vllm",
        "rm -rf /run/vllm/jobs/*; full /run/vllm",
        "umount -l /run/vllm",
        said=(_FULL,),
        task="tasks/restart_vllm.py",
    ),
    Fault(
        "disk full",
        "/var/lib/vllm is full as the server is restarted",
        "/var/lib/vllm",
        "full /var/lib/vllm",
        "umount -l /var/lib/vllm",
        said=("no room is left on the disk of /var/lib/vllm/health", "make some"),
        task="tasks/restart_vllm.py",
    ),
    Fault(
        "disk full",
        "apt has no room for its lists",
        "/var/lib/apt/lists",
        "dpkg --force-depends --purge libnuma1 >/dev/null; "
        "mount -t tmpfs -o size=8k none /var/lib/apt/lists",
        "umount /var/lib/apt/lists",
        said=(_FULL,),
    ),
    _refused(
        "read-only",
        "/opt/vllm is read-only, and hostkit has to be installed",
        "/opt/vllm",
        "rm /opt/vllm/hostkit/hostkit/host/units.py",
        "read_only",
        _READ_ONLY,
    ),
    _refused(
        "read-only",
        "the models' folder is read-only, and a shard is truncated",
        _MODELS,
        "truncate -s -1 $M/model.safetensors",
        "read_only",
        _READ_ONLY,
    ),
    _refused(
        "read-only",
        "/etc/vllm is read-only, and the API key's file is empty",
        "/etc/vllm",
        ": >/etc/vllm/secrets.env",
        "read_only",
        _READ_ONLY,
    ),
    Fault(
        "read-only",
        "/opt/vllm and /etc/vllm are read-only, and nothing has to change",
        "/opt/vllm, /etc/vllm",
        "read_only /opt/vllm; read_only /etc/vllm",
        "umount -l /opt/vllm /etc/vllm",
    ),
    Fault(
        "read-only",
        "the generations are read-only as the server is restarted",
        _GENERATIONS,
        f"read_only {_GENERATIONS}",
        f"umount -l {_GENERATIONS}",
        said=("cannot be written to", "read-only"),
        task="tasks/restart_vllm.py",
    ),
)
