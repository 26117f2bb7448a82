"""What must be in order before a generation is started; asked before anything is stopped, too."""

from pathlib import Path

from hostkit import generations, weights
from hostkit.process import Failure


def check(number: int) -> None:
    """Failure names the first thing that keeps this generation from serving."""
    if number not in generations.numbers():
        raise Failure(f"there is no generation {number}: there are {generations.numbers()}")
    gone = [n for n in generations.FILES if not (generations.folder(number) / n).is_file()]
    if gone:
        raise Failure(f"{', '.join(gone)} of generation {number} is missing: deploy again")
    release = (generations.folder(number) / "release").resolve()
    if not (release / "manifest.json").is_file() or not (release / "venv/bin/vllm").is_file():
        raise Failure(f"release {release.name} of generation {number} is incomplete: deploy again")
    _check_model(number)


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
