"""Shortest-first prefill for vLLM: `--scheduler-cls shortest_first.scheduler.<class>`.

`AsyncShortestFirstScheduler` where vLLM schedules asynchronously, its default on a GPU;
`ShortestFirstScheduler` where it does not: on a CPU, or with --no-async-scheduling.
"""
