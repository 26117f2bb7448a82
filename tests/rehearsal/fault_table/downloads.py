"""What a build downloads comes changed, cut short, slowly or not at all.

The wheel of a release that is new to the host lies in a folder of it, or comes from an imitation
of an index there (slow_index.py).
"""

from pathlib import Path

from .fault import Fault

_VERSION = ("--data", "vllm_version=0.30.0")
_WHEEL = "/srv/standin/vllm_standin-0.30.0-py3-none-any.whl"
_PORT = 8099
_INDEX = ("--data", f'find_links=["http://127.0.0.1:{_PORT}/"]')
_SERVER = Path(__file__).with_name("slow_index.py").read_text("utf-8")
_NOT_AS_PINNED = ("hash",)


def _wheel(name: str, change: str, said: tuple[str, ...]) -> Fault:
    return Fault(
        "download",
        name,
        _WHEEL,
        f"new_release; keep {_WHEEL}; {change}",
        f"put_back {_WHEEL}",
        said=said,
        change=_VERSION,
    )


def _index(name: str, how: str, said: tuple[str, ...] = ()) -> Fault:
    start = (
        "new_release; systemctl stop index 2>/dev/null || true; "
        f"cat >/srv/index.py <<'END'\n{_SERVER}\nEND\n"
        f"systemd-run --quiet --collect --unit=index python3 /srv/index.py {_PORT} {how}; sleep 1"
    )
    heal = (
        "systemctl stop index; systemd-run --quiet --collect --unit=index "
        f"python3 /srv/index.py {_PORT} whole; sleep 1"
    )
    return Fault("download", name, "an index", start, heal, said=said, change=(*_VERSION, *_INDEX))


DOWNLOADS = (
    _wheel("the wheel is cut short", f"truncate -s -100 {_WHEEL}", _NOT_AS_PINNED),
    _wheel(
        "one byte of the wheel is another",
        f"printf X | dd of={_WHEEL} bs=1 seek=200 conv=notrunc status=none",
        _NOT_AS_PINNED,
    ),
    _wheel("the wheel is not there", f"rm {_WHEEL}", ("vllm-standin",)),
    _index("the download breaks off half-way", "broken", ("vllm-standin",)),
    _index("the index answers 500", "error", ("vllm-standin",)),
    _index("the download is slow", "slow"),
)
