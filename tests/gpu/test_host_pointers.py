"""The host-pointer patch on the GPU: host_pointers.py, whose imitated half needs none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.gpu import profile
from tests.gpu.record import record


def test_vllm_copies_by_the_gpus_address_of_host_memory(rank_model: Path) -> None:
    """The region is mapped twice, and only the mapping that vLLM does not use is registered."""
    status, output = run("")
    assert status == 0, output[-4000:]


@pytest.mark.parametrize("mutant", ["missing", "sign"])
def test_a_missing_or_reversed_difference_is_noticed(rank_model: Path, mutant: str) -> None:
    status, output = run(mutant)
    assert "test_each_rank_has_its_own_place" in output, output[-4000:]
    assert status != 0


def run(mutant: str) -> tuple[int, str]:
    """The exit status of host_pointers.py on the GPU, negative for a signal, and its output."""
    rendered = profile.render(profile.settings(Path("/nowhere"), 8000, gpus=1))
    script = str(Path(__file__).with_name("host_pointers.py"))
    Path(rendered.environment["HOME"]).mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [profile.python(), "-u", script, "cuda", mutant],
        env=rendered.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=120,
        check=False,
    )
    record("host pointers", **{f"exit_status_{mutant or 'right'}": done.returncode})
    return done.returncode, done.stdout
