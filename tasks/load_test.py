"""Measure the server with vLLM's own benchmark, and compare it with the last time."""

from tasks.shared import notices
from tasks.shared.generation import desired
from tasks.shared.load_tests import trials
from tasks.shared.load_tests.plan import Waits
from tasks.shared.operations import load_test, vllm
from tasks.shared.settings import settings

own = settings()

notices.show()
variants = trials.of(own).items()
generations = {label: desired.generation(variant) for label, variant in variants}

for label, generation in generations.items():
    vllm.generation_staged(name=f"Stage the generation with {label}", generation=generation)
load_test.measured(
    name="Measure the server",
    settings=own,
    waits=Waits(own.idle_wait_s, own.ready_timeout_s),
    trials=generations,
)
