"""vLLM's own schedulers with another order of prefills; importing it checks vLLM's version.

vLLM serves running requests before waiting ones, first come, first served, so that a prompt of many
steps keeps all later ones waiting for its whole prefill. Here every step's tokens are dealt anew:
to decodes, then to the prompt with the least left to compute, and so on. A running prefill is held
to what it was dealt, the waiting queue is put in the same order, and vLLM's own `schedule` does
the rest: admission, blocks, preemption, connectors and all accounting stay its own.
"""

import inspect
from collections.abc import Iterable
from typing import Any, cast

import vllm
from vllm.logger import init_logger
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import Request, RequestStatus

from shortest_first import versions
from shortest_first.dealing import Debt, Prompt, Vain, deal, in_turn, oldest

versions.check(vllm.__version__)

# Below vllm's own name a logger writes as the server's others do.
logger = init_logger("vllm.shortest_first")

_PARAMETERS = {
    "schedule": ["self", "throttle_prefills"],
    "_mamba_block_aligned_split": [
        *("self", "request", "num_new_tokens"),
        *("num_new_local_computed_tokens", "num_external_computed_tokens"),
    ],
    "_reserve_prefill_lookahead": ["self", "request", "num_computed_tokens", "num_new_tokens"],
    "_request_remaining_blocks": ["self", "request"],
    "_inflight_prefill_reserved_blocks": ["self"],
}
_ATTRIBUTES = (
    *("running", "waiting", "requests", "finished_recving_kv_req_ids", "kv_cache_manager"),
    *("max_num_scheduled_tokens", "max_num_running_reqs", "num_waiting_for_streaming_input"),
    *("need_mamba_block_aligned_split", "enable_kv_cache_events", "current_step"),
    "_inflight_prefills",
)
_QUEUES_SERVED_FIRST = ("kv_holding_waiting", "skipped_waiting")
"""Which of them there is depends on the version. vLLM empties it before `waiting`, in its order."""

for _name, _expected in _PARAMETERS.items():
    _found = list(inspect.signature(getattr(Scheduler, _name)).parameters)
    if _found != _expected:
        raise ImportError(
            f"shortest_first: Scheduler.{_name} of vLLM {vllm.__version__} takes {_found}, "
            f"expected {_expected}: use the scheduler of upstream"
        )


class _ShortestFirst(Scheduler):
    """The mixin: what differs from the scheduler that follows it in the method resolution order."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._refuse_what_does_not_fit()
        self._offers: dict[str, int] = {}
        self._cached_tokens: dict[str, int] = {}
        self._debt = Debt(self.max_num_scheduled_tokens)
        self._vain = Vain()
        self._num_ran = 0
        logger.info(
            "Shortest-first prefill: %s deals %d tokens a step",
            type(self).__name__,
            self.max_num_scheduled_tokens,
        )

    def _refuse_what_does_not_fit(self) -> None:
        """Raise ValueError for a configuration in which this class would not do what it says."""
        config, spec = self.scheduler_config, self.vllm_config.speculative_config
        name = type(self).__name__
        missing = [each for each in _ATTRIBUTES if not hasattr(self, each)]
        if missing or not any(hasattr(self, each) for each in _QUEUES_SERVED_FIRST):
            raise ValueError(
                f"{name}: the scheduler of vLLM {vllm.__version__} has no "
                f"{', '.join(missing or _QUEUES_SERVED_FIRST)}: use the scheduler of upstream"
            )
        if bool(config.async_scheduling) != isinstance(self, AsyncScheduler):
            other = (
                AsyncShortestFirstScheduler if config.async_scheduling else ShortestFirstScheduler
            )
            raise ValueError(
                f"{name} with async_scheduling={config.async_scheduling}: "
                f"use --scheduler-cls {__name__}.{other.__name__}"
            )
        if config.policy != "fcfs":
            raise ValueError(f"{name} with --scheduling-policy {config.policy}: leave that away")
        if config.long_prefill_token_threshold:
            raise ValueError(
                f"{name} with --long-prefill-token-threshold "
                f"{config.long_prefill_token_threshold}: leave that away, the budget is dealt here"
            )
        if not config.enable_chunked_prefill:
            raise ValueError(f"{name} without chunked prefill: there would be nothing to deal")
        if spec is not None and spec.max_num_new_slots_for_drafting:
            raise ValueError(f"{name} with {spec.method}, whose drafts need slots of their own")

    def schedule(self, throttle_prefills: bool = False) -> SchedulerOutput:
        """One step of vLLM's own, its prefill tokens dealt to the shortest prompts first."""
        if len(self.running) < self._num_ran:
            self._vain.reset()
        running = [self._prompt(request) for request in self.running if _is_prefill(request)]
        waiting = self._ready_prompts()
        first = oldest([*running, *waiting])
        due = first if self._debt.is_due else None
        waiting = in_turn(waiting, due)
        self._order_waiting(waiting)
        hoped_for = self._hoped_for(waiting)
        offers = deal(in_turn([*running, *hoped_for], due), self._prefill_tokens(), self._takes)
        # What vLLM admits takes what the others leave: its cached prefix may have changed.
        self._offers = {prompt.key: offers[prompt.key] for prompt in running}
        output = super().schedule(throttle_prefills)
        scheduled = output.num_scheduled_tokens
        if hoped_for and offers[hoped_for[0].key]:
            taken = any(prompt.key in scheduled for prompt in hoped_for)
            self._vain.settle(hoped_for[0].key, self.current_step, taken=taken)
        if first is not None:
            self._debt.settle(scheduled.get(first.key, 0))
        self._num_ran = len(self.running)
        return output

    def _mamba_block_aligned_split(
        self, request: Request, num_new_tokens: int, *args: int, **kwargs: int
    ) -> int:
        """vLLM's own, of what the request may have: in a hybrid model it rounds to whole blocks."""
        within = self._within_offer(request, num_new_tokens)
        return super()._mamba_block_aligned_split(request, within, *args, **kwargs)

    def _reserve_prefill_lookahead(
        self, request: Request, num_computed_tokens: int, num_new_tokens: int
    ) -> int:
        """vLLM's own, of what the request may have: the last that it asks about every chunk."""
        within = self._within_offer(request, num_new_tokens)
        return super()._reserve_prefill_lookahead(request, num_computed_tokens, within)

    def _within_offer(self, request: Request, num_new_tokens: int) -> int:
        return min(num_new_tokens, self._offers.get(request.request_id, num_new_tokens))

    def _prefill_tokens(self) -> int:
        """A step's tokens without those of the decodes, counted as vLLM counts them."""
        decodes = (request for request in self.running if not _is_prefill(request))
        needed = (
            request.num_tokens_with_spec
            + request.num_output_placeholders
            - request.num_computed_tokens
            for request in decodes
        )
        return max(self.max_num_scheduled_tokens - sum(max(need, 0) for need in needed), 0)

    def _prompt(self, request: Request) -> Prompt:
        computed = request.num_computed_tokens or self._cached_tokens.get(request.request_id, 0)
        return Prompt(
            request.request_id,
            request.arrival_time,
            request.num_tokens - computed,
            request.num_output_tokens > 0,
        )

    def _takes(self, prompt: Prompt, offered: int) -> int:
        if not self.need_mamba_block_aligned_split:
            return offered
        request = self.requests[prompt.key]
        cached = 0 if request.num_computed_tokens else self._cached_tokens.get(prompt.key, 0)
        return super()._mamba_block_aligned_split(request, offered, cached)

    def _ready_prompts(self) -> list[Prompt]:
        """The waiting requests that vLLM could admit now."""
        queues = (*self._served_first, *self.waiting)
        requests = [request for request in queues if self._is_ready(request)]
        known, self._cached_tokens = self._cached_tokens, {}
        for request in requests:
            cached = known.get(request.request_id)
            self._cached_tokens[request.request_id] = (
                self._cached_prefix(request) if cached is None else cached
            )
        return [self._prompt(request) for request in requests]

    def _cached_prefix(self, request: Request) -> int:
        """How many of its tokens are in the GPU's prefix cache, asked when it is first seen.

        Not asked where vLLM's answer would publish an event.
        """
        if request.num_computed_tokens or self.enable_kv_cache_events:
            return 0
        return self.kv_cache_manager.get_computed_blocks(request)[1]

    def _is_ready(self, request: Request) -> bool:
        """Would vLLM's own loop go on with this waiting request?"""
        status = request.status
        if status == RequestStatus.WAITING_FOR_REMOTE_KVS:
            return request.request_id in self.finished_recving_kv_req_ids
        if status == RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR:
            structured = request.structured_output_request
            return structured is not None and structured.grammar is not None
        return status == RequestStatus.WAITING or status == RequestStatus.PREEMPTED

    @property
    def _served_first(self) -> Iterable[Request]:
        """Waiting requests that hold KV blocks or were skipped: vLLM takes them before the others.

        It has had two names for them.
        """
        for name in _QUEUES_SERVED_FIRST:
            if hasattr(self, name):
                return cast(Iterable[Request], getattr(self, name))
        raise AttributeError(_QUEUES_SERVED_FIRST[0])

    def _order_waiting(self, turns: list[Prompt]) -> None:
        """Put the ready requests of the waiting queue in turn; the others keep their places."""
        mine = {request.request_id: request for request in self.waiting}
        ready = {prompt.key for prompt in turns}
        in_order = (mine[prompt.key] for prompt in turns if prompt.key in mine)
        queue = [next(in_order) if key in ready else request for key, request in mine.items()]
        if queue != list(mine.values()):
            self.waiting.clear()
            self.waiting.extend(queue)

    def _hoped_for(self, turns: list[Prompt]) -> list[Prompt]:
        """The waiting prompts that room is left for: those that vLLM can be expected to admit.

        There must be a place, and blocks beside those that the running prefills still need: vLLM
        itself looks at free blocks only, which with more prefills under way at once would end in
        preemptions.
        """
        if not turns or not self._vain.is_worth_it(turns[0].key, self.current_step + 1):
            return []
        name = "max_num_active_reqs"  # since 0.31.0
        most = getattr(self, name) if hasattr(self, name) else self.max_num_running_reqs
        places = most - len(self.running) - self.num_waiting_for_streaming_input
        free = self.kv_cache_manager.block_pool.get_num_free_blocks()
        free -= self._inflight_prefill_reserved_blocks()
        found = []
        for prompt in turns[: max(places, 0)]:
            request = self.requests[prompt.key]
            if request not in self._inflight_prefills:  # those are in what is reserved
                free -= self._request_remaining_blocks(request)
            if free < 0:
                break
            found.append(prompt)
        return found


def _is_prefill(request: Request) -> bool:
    """Has this running request tokens to compute before it produces the next one?

    A preempted request that comes back computes its answer so far once more as well.
    """
    end = max(request.num_prompt_tokens, request.num_tokens - 1)
    return bool(request.num_computed_tokens < end)


class ShortestFirstScheduler(_ShortestFirst):
    """For an engine that schedules a step when the one before has ended."""


class AsyncShortestFirstScheduler(_ShortestFirst, AsyncScheduler):
    """For an engine that schedules ahead, as vLLM does on a GPU by default."""
