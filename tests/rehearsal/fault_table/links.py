"""`current`, `previous` and the generations are not what they should be."""

from .fault import Fault

_CURRENT = "/opt/vllm/current"
_PREVIOUS = "/opt/vllm/previous"
_OTHER = ("--data", "max_num_seqs=3")


def _current(name: str, change: str, *, daily: bool = False) -> Fault:
    plant = f"rm {_CURRENT}; {change}"
    return Fault("links", f"`current` {name}", _CURRENT, plant, daily=daily)


def _no_link(name: str, change: str) -> Fault:
    return Fault(
        "links",
        f"`current` {name}",
        _CURRENT,
        f"rm {_CURRENT}; {change}",
        f"rm -rf {_CURRENT}",
        said=("/opt/vllm/current is no link", "move it away"),
    )


LINKS = (
    _current("is gone", "true", daily=True),
    _current("names a generation that is not there", f"ln -s generations/9999 {_CURRENT}"),
    _current("leads out of the generations", f"cp -a $G /srv/$N; ln -s /srv/$N {_CURRENT}"),
    _no_link("is a file", f"echo 1 >{_CURRENT}"),
    _no_link("is a folder, with a copy of the generation", f"cp -a $G {_CURRENT}"),
    Fault(
        "links",
        "`previous` names a generation that is not there",
        _PREVIOUS,
        f"ln -sfn generations/9999 {_PREVIOUS}",
        f"rm {_PREVIOUS}",
        said=("there is no generation before", "--data rollback_to=N"),
        task="tasks/rollback_vllm.py",
    ),
    Fault(
        "generations",
        "a generation is half deleted: its note is gone",
        "/opt/vllm/generations/N/generation.json",
        "rm $G/generation.json",
    ),
    Fault(
        "generations",
        "a note of a generation is cut to nothing",
        "/opt/vllm/generations/N/generation.json",
        ": >$G/generation.json",
    ),
)
