"""What must be in order before a generation is started; asked before anything is stopped, too."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from hostkit.generation import generations, handover, resources, starts
from hostkit.host.process import Failure
from hostkit.model import weights
from hostkit.release import installed

POLL_S = 2.0


class NotNow(Failure):
    """A later start may succeed without anybody having done anything about it."""


def check(number: int) -> None:
    """Failure names the first thing that keeps this generation from serving, whatever runs now."""
    if number not in generations.numbers():
        raise Failure(f"there is no generation {number}: there are {generations.numbers()}")
    gone = [n for n in generations.FILES if not (generations.folder(number) / n).is_file()]
    if gone:
        raise Failure(f"{', '.join(gone)} of generation {number} is missing: deploy again")
    _check_release(number)
    _check_model(number)
    _check_handover(number)
    if not os.environ.get("GENERATION_DIGEST"):
        starts.check_reachable(generations.note(number).get("start_limit"))


def check_machine(number: int) -> None:
    """Failure when the machine is not one that this generation can be started on now.

    Waits for what may pass by itself: GPU memory and a port that an ending process still holds.
    Only valid in the process that becomes the server. Raises NotNow for what may pass later.
    """
    note = generations.note(number)
    needs = note.get("needs", {})
    resources.limits(needs)
    passing: list[Callable[[], None]] = [
        lambda: resources.no_orphans(os.getpid()),
        lambda: resources.free_port(note["port"]),
        lambda: resources.free_gpus(needs, os.environ.get("CUDA_VISIBLE_DEVICES")),
        lambda: resources.shared_memory(needs),
        lambda: resources.kv_folder(needs),
    ]
    deadline = time.monotonic() + needs.get("wait_s", 0)
    for each in passing:
        _wait(each, deadline)


def _wait(check_once: Callable[[], None], deadline: float) -> None:
    said = ""
    while True:
        try:
            return check_once()
        except Failure as failure:
            if time.monotonic() >= deadline:
                raise NotNow(str(failure)) from None
            if str(failure) != said:
                said = str(failure)
                print(f"hostkit: waiting: {said}", flush=True)
        time.sleep(POLL_S)


def _check_release(number: int) -> None:
    release = (generations.folder(number) / "release").resolve()
    what = f"release {release.name} of generation {number}"
    if not (release / "manifest.json").is_file() or not (release / "venv/bin/vllm").is_file():
        raise Failure(f"{what} is incomplete: deploy again")
    damage = installed.damage(release)
    if damage:
        raise Failure(f"{what} is damaged: {damage}: deploy again")


def _check_model(number: int) -> None:
    note = generations.note(number)
    folder = Path(note["model_dir"])
    with weights.as_service_user():
        problems = weights.problems(folder)
        found = weights.identity(folder) if not problems and note.get("weights") else None
    if problems:
        raise Failure(f"model {folder}: {'; '.join(problems)}")
    if found != note.get("weights"):
        # The name of the SSD tier's folder stands for these weights: others would read wrong KV.
        raise Failure(f"model {folder} is not the one of generation {number}: deploy again")


def _check_handover(number: int) -> None:
    """What systemd makes of the environment file is what the settings meant."""
    wanted: Mapping[str, str] = generations.note(number).get("environment", {})
    file = generations.folder(number) / "vllm.env"
    if os.environ.get("GENERATION_DIGEST"):
        # Inside the unit: it has handed it over already.
        handover.compare(os.environ, wanted, file)
    elif wanted and os.geteuid() == 0:
        handover.check(file, wanted)
