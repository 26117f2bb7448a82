"""What serves, or what builds it, is damaged: the release, its packages, its Python, the tools."""

from .fault import Fault

_DAMAGED = ("is damaged, and process", "systemctl stop vllm.service")
_STOP = "systemctl stop vllm"


def _damaged(name: str, where: str, plant: str) -> Fault:
    """Seen beside the server, said with the remedy, and built again once that was followed."""
    return Fault(
        "release", name, where, plant, _STOP, said=_DAMAGED, untouched=False, meanwhile=True
    )


RELEASE = (
    _damaged("a module of the release is gone", "vllm/flags.py", "rm $V/vllm/flags.py"),
    _damaged("a package of the release is gone", "yaml/", "rm -r $V/yaml"),
    _damaged("the release's Python is gone", "venv/bin/python", "rm $R/venv/bin/python"),
    _damaged(
        "the host's Python was upgraded under the release (a link to one that is not there)",
        "venv/bin/python",
        "ln -sfn /usr/bin/python3.99 $R/venv/bin/python",
    ),
    _damaged("the release's manifest is cut to nothing", "manifest.json", ": >$R/manifest.json"),
    _damaged("the release's manifest is junk", "manifest.json", "junk $R/manifest.json"),
    Fault(
        "release",
        "the release was removed under the server",
        "/opt/vllm/releases",
        "rm -r $R",
    ),
)
