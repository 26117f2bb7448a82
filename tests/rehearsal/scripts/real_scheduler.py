"""vLLM's own scheduler classes, stepped without an engine.

Runs under the Python of a release (or of any environment with vLLM and files/scheduler on its
path): `python real_scheduler.py MODEL_FOLDER`. Prints the facts about each case as JSON; what they
must be is asserted where the control machine's test tools are, in test_7_scheduler.py.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import vllm
from vllm.config import CacheConfig, DeviceConfig, ModelConfig, SchedulerConfig, VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    MambaSpec,
)
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

from shortest_first import scheduler as ours
from shortest_first.dealing import in_turn

BLOCK = 16
LONGEST = 32768
HYBRID_BLOCK = 1584
CLASSES = {
    "upstream": Scheduler,
    "upstream async": AsyncScheduler,
    "shortest first": ours.ShortestFirstScheduler,
    "shortest first async": ours.AsyncShortestFirstScheduler,
}
OURS = ["shortest first", "shortest first async"]


@dataclass(frozen=True)
class Arrival:
    """A request: the step before which it arrives, its prompt's and its answer's tokens.

    Requests of one `text` have the same tokens, as far as both go.
    """

    step: int
    prompt: int
    answer: int = 4
    text: int | None = None


@dataclass
class Step:
    """What one step scheduled: tokens of requests that were still prefilling, and of the others."""

    prefills: dict[str, int]
    decodes: dict[str, int]
    waiting_decodes: int


class Run:
    """One scheduler, stepped until every request has finished or `limit` is reached."""

    def __init__(
        self,
        scheduler_class: type[Any],
        arrivals: Sequence[Arrival],
        *,
        limit: int = 5000,
        **config: Any,
    ) -> None:
        self.scheduler = make(scheduler_class, **config)
        self.is_async = issubclass(scheduler_class, AsyncScheduler)
        self.hasher = get_request_block_hasher(self.scheduler.hash_block_size, sha256)
        self.steps: list[Step] = []
        self.first_token: dict[str, int] = {}
        self.finished: dict[str, int] = {}
        self.preemptions = 0
        self._in_flight: list[Any] = []
        self._requests: dict[str, Request] = {}
        pending = sorted(enumerate(arrivals), key=lambda each: each[1].step)
        for number in range(limit):
            while pending and pending[0][1].step <= number:
                self._add(*pending.pop(0))
            if not pending and not self._in_flight and not self.scheduler.has_unfinished_requests():
                break
            self._step()

    def _add(self, index: int, arrival: Arrival) -> None:
        parameters = SamplingParams(max_tokens=arrival.answer, ignore_eos=True)
        parameters.update_from_generation_config({}, 2)
        request = Request(
            request_id=f"r{index:03}",
            prompt_token_ids=[index if arrival.text is None else arrival.text] * arrival.prompt,
            sampling_params=parameters,
            pooling_params=None,
            arrival_time=float(index),
            block_hasher=self.hasher,
        )
        self._requests[request.request_id] = request
        self.scheduler.add_request(request)

    def _step(self) -> None:
        before = {
            r.request_id: r.num_computed_tokens < max(r.num_prompt_tokens, r.num_tokens - 1)
            for r in self._requests.values()
        }
        running = {r.request_id for r in self.scheduler.running}
        output = self.scheduler.schedule()
        scheduled = output.num_scheduled_tokens
        self.preemptions += len(output.preempted_req_ids or ())
        still = {r.request_id for r in self.scheduler.running}
        could = {key for key in running & still if not before[key] and self._may_decode(key)}
        self.steps.append(
            Step(
                {key: count for key, count in scheduled.items() if before[key]},
                {key: count for key, count in scheduled.items() if not before[key]},
                len(could - scheduled.keys()),
            )
        )
        self._in_flight.append((output, self._sampled(scheduled)))
        # An asynchronous engine schedules the next step while this one is computed.
        if not self.is_async or len(self._in_flight) > 1:
            self._finish_step()
        if not scheduled:
            while self._in_flight:
                self._finish_step()

    def _may_decode(self, key: str) -> bool:
        request = self._requests[key]
        ahead = request.num_output_tokens + request.num_output_placeholders
        return bool(ahead < request.max_tokens)

    def _sampled(self, scheduled: dict[str, int]) -> dict[str, bool]:
        return {key: not self._requests[key].is_prefill_chunk for key in scheduled}

    def _finish_step(self) -> None:
        output, sampled = self._in_flight.pop(0)
        keys = list(sampled)
        answer = ModelRunnerOutput(
            req_ids=keys,
            req_id_to_index={key: index for index, key in enumerate(keys)},
            sampled_token_ids=[[7] if sampled[key] else [] for key in keys],
        )
        self.scheduler.update_from_output(output, answer)
        for key, request in list(self._requests.items()):
            if request.num_output_tokens:
                self.first_token.setdefault(key, len(self.steps))
            if request.is_finished():
                self.finished[key] = len(self.steps)
                del self._requests[key]

    @property
    def facts(self) -> dict[str, Any]:
        """What the tests look at; counts of steps, tokens and requests."""
        sums = [sum({**step.prefills, **step.decodes}.values()) for step in self.steps]
        return {
            "first_token": self.first_token,
            "finished": self.finished,
            "unfinished": len(self._requests),
            "most_tokens": max(sums),
            "tokens": sum(sums),
            "steps": len(self.steps),
            "decodes_left_out": sum(step.waiting_decodes for step in self.steps),
            "preemptions": self.preemptions,
            "prefills": [step.prefills for step in self.steps],
        }


@cache
def _model() -> ModelConfig:
    model = ModelConfig(model=sys.argv[1], dtype="bfloat16", seed=0, skip_tokenizer_init=True)
    model.max_model_len = LONGEST
    return model


def make(
    scheduler_class: type[Any],
    *,
    budget: int = 512,
    seqs: int = 8,
    blocks: int = 4000,
    hybrid: bool = False,
    caching: bool = False,
    **scheduler_config: Any,
) -> Any:
    """A scheduler for SmolLM2's shape, or for a hybrid with the article's block."""
    block = HYBRID_BLOCK if hybrid else BLOCK
    scheduling: dict[str, Any] = {
        "async_scheduling": issubclass(scheduler_class, AsyncScheduler),
        "enable_chunked_prefill": True,
    } | scheduler_config
    config = VllmConfig(
        model_config=_model(),
        device_config=DeviceConfig("cpu"),
        cache_config=CacheConfig(block_size=block, enable_prefix_caching=caching or hybrid),
        scheduler_config=SchedulerConfig(
            max_num_seqs=seqs,
            max_num_batched_tokens=budget,
            max_model_len=LONGEST,
            is_encoder_decoder=False,
            **scheduling,
        ),
    )
    # The platform may have turned it off: here no engine runs.
    config.scheduler_config.async_scheduling = scheduling["async_scheduling"]
    config.cache_config.num_gpu_blocks = blocks
    attention = FullAttentionSpec(
        block_size=block, num_kv_heads=1, head_size=1, dtype=torch.float32
    )
    groups = [KVCacheGroupSpec(["attention"], attention)]
    if hybrid:
        config.cache_config.mamba_cache_mode = "align"
        state = MambaSpec(
            block_size=block, shapes=((1,),), dtypes=(torch.float32,), mamba_cache_mode="align"
        )
        groups.append(KVCacheGroupSpec(["state"], state))
    return scheduler_class(
        vllm_config=config,
        kv_cache_config=KVCacheConfig(
            num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=groups
        ),
        structured_output_manager=StructuredOutputManager(config),
        block_size=block,
        hash_block_size=block,
    )


def late_short(**config: Any) -> dict[str, Any]:
    """A short prompt that comes while a long one is computed."""
    arrivals = [Arrival(0, 7000), Arrival(3, 40, 8)]
    return {name: Run(each, arrivals, **config).facts for name, each in CLASSES.items()}


def late_short_in_a_hybrid() -> dict[str, Any]:
    """One that needs more than a block leaves of a step."""
    arrivals = [Arrival(0, 16000), Arrival(3, 700, 8)]
    each = {name: Run(c, arrivals, budget=2048, hybrid=True) for name, c in CLASSES.items()}
    return {name: run.facts for name, run in each.items()}


def mixed(seeds: int) -> list[dict[str, Any]]:
    """Random loads of 100 requests, on every class: with plenty of blocks, with few, hybrid."""
    found = []
    for seed in range(seeds):
        drawn = random.Random(seed)
        config = drawn.choice(
            [{}, {"seqs": 3}, {"blocks": 1000}, {"blocks": 520, "seqs": 16}, HYBRID, {"caching": 1}]
        )
        arrivals = [
            Arrival(drawn.randrange(120), round(8 * 1000 ** drawn.random()), drawn.randint(1, 40))
            for _ in range(100)
        ]
        facts = {name: Run(c, arrivals, **config).facts for name, c in CLASSES.items()}
        for each in facts.values():
            del each["prefills"]
        found.append({"seed": seed, "config": config, "of": facts})
    return found


HYBRID = {"hybrid": True, "budget": 2048, "blocks": 80}


def overload() -> dict[str, Any]:
    """More short prompts than there is room for, for as long as a long one takes."""
    shorts = [Arrival(step, 300, 1) for step in range(1, 120) for _ in range(2)]
    run = {name: Run(CLASSES[name], [Arrival(0, 5000), *shorts]).facts for name in OURS}
    return run | {"upstream": Run(Scheduler, [Arrival(0, 5000), *shorts]).facts}


def waiting_long() -> dict[str, Any]:
    """The long one comes when every place is taken, and short ones never stop coming."""
    shorts = [Arrival(step // 2, 100, 6) for step in range(800)]
    arrivals = [*shorts[:40], Arrival(10, 7000, 1), *shorts[40:]]
    return {name: Run(CLASSES[name], arrivals, seqs=4).facts for name in OURS}


def cached_prefix() -> dict[str, Any]:
    """Most of a long prompt is in the prefix cache: what is left of it is short."""
    arrivals = [Arrival(0, 4000, 1, text=1), Arrival(12, 6000), Arrival(14, 4010, text=1)]
    return {name: Run(CLASSES[name], arrivals, caching=True).facts for name in OURS}


def blocked_keep_their_places() -> dict[str, Any]:
    """Requests that wait for a grammar or for remote KV are neither moved nor hoped for."""
    run = Run(CLASSES["shortest first"], [], limit=0)
    for index, prompt in enumerate([900, 5, 800, 7, 700]):
        run._add(index, Arrival(0, prompt))
    requests = [run._requests[f"r{index:03}"] for index in range(5)]
    requests[1].status = RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR
    requests[3].status = RequestStatus.WAITING_FOR_REMOTE_KVS
    scheduler = run.scheduler
    ready = scheduler._ready_prompts()
    scheduler._order_waiting(in_turn(ready))
    return {
        "ready": sorted(prompt.key for prompt in ready),
        "order": [request.request_id for request in scheduler.waiting],
    }


def refusals() -> dict[str, str]:
    """What is said about a configuration that does not fit; "" where it starts."""
    sync, asynchronous = (CLASSES[name] for name in OURS)

    class Changed(sync):  # type: ignore[misc, valid-type]
        """As with a version of vLLM that calls it otherwise."""

        def __getattribute__(self, name: str) -> Any:
            if name == "finished_recving_kv_req_ids":
                raise AttributeError(name)
            return super().__getattribute__(name)

    cases: dict[str, Callable[[], Any]] = {
        "good": lambda: make(sync),
        "good async": lambda: make(asynchronous),
        "priority": lambda: make(sync, policy="priority"),
        "threshold": lambda: make(sync, long_prefill_token_threshold=64),
        "unchunked": lambda: make(sync, enable_chunked_prefill=False, budget=LONGEST),
        "sync for async": lambda: make(sync, async_scheduling=True),
        "async for sync": lambda: make(asynchronous, async_scheduling=False),
        "another vLLM": lambda: make(Changed),
    }
    said = {}
    for name, build in cases.items():
        try:
            build()
            said[name] = ""
        except ValueError as error:
            said[name] = str(error)
    return said


def cost() -> dict[str, float]:
    """Milliseconds that a step takes with 16 that run and 200 that wait, ours and vLLM's own."""
    found = {}
    for name in ("upstream", "shortest first"):
        run = Run(CLASSES[name], [Arrival(0, 3000, 400)] * 216, seqs=16, limit=1)
        began = time.perf_counter()
        for _ in range(50):
            run._step()
        found[name] = (time.perf_counter() - began) / 50 * 1000
    return found


def main() -> None:
    init_none_hash(sha256)
    seeds = int(sys.argv[2]) if len(sys.argv) > 2 else 6
    facts = {
        "vllm": vllm.__version__,
        "late_short": late_short(),
        "late_short_in_a_hybrid": late_short_in_a_hybrid(),
        "overload": overload(),
        "waiting_long": waiting_long(),
        "cached_prefix": cached_prefix(),
        "blocked": blocked_keep_their_places(),
        "refusals": refusals(),
        "mixed": mixed(seeds),
        "cost": cost(),
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
