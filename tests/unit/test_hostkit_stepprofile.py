"""A profile's trace, in the shape that torch writes, and what is read from it."""

import gzip
import json

import pytest

from hostkit.host.process import Failure
from hostkit.measure import stepprofile


def event(name, cat, ts, dur):
    return {"ph": "X", "name": name, "cat": cat, "ts": ts, "dur": dur}


def step(ts):
    return event("execute_context_0(0)_generation_16(16)", "user_annotation", ts, 1000)


def test_communication_is_a_share_of_the_time_that_the_gpu_is_busy():
    found = stepprofile.share(
        [
            step(0),
            step(2000),
            event("aten::mm", "cpu_op", 0, 9000),
            event("gemm_kernel", "kernel", 0, 600),
            event("ncclDevKernel_AllReduce_Sum", "kernel", 600, 400),
            event("gemm_kernel", "kernel", 2000, 600),
            event("ncclDevKernel_AllReduce_Sum", "kernel", 2600, 400),
        ]
    )
    assert found["figures"] == {"step_ms": 1.0, "communication_percent": 40.0}
    assert (
        "2 steps, 1.00 ms each, 40.0 % of it communication; longest: gemm_kernel 60 %"
        in (found["note"])
    )


def test_what_overlaps_counts_once():
    found = stepprofile.share(
        [
            step(0),
            event("gemm_kernel", "kernel", 0, 800),
            event("nccl_a", "kernel", 400, 600),
            event("nccl_b", "kernel", 500, 100),
        ]
    )
    assert found["figures"] == {"step_ms": 1.0, "communication_percent": 60.0}


def test_without_a_gpu_the_processors_operations_count():
    found = stepprofile.share([step(0), event("aten::mm", "cpu_op", 0, 500)])
    assert found["figures"] == {"step_ms": 0.5, "communication_percent": 0.0}


@pytest.mark.parametrize("events", [[], [step(0)], [event("gemm", "kernel", 0, 5)]])
def test_a_trace_without_a_step_is_no_profile(events):
    with pytest.raises(Failure, match="recorded no step"):
        stepprofile.share(events)


def test_a_trace_is_read_packed_or_not_and_without_what_does_not_last(tmp_path):
    content = {"traceEvents": [step(0), {"ph": "i", "name": "mark", "ts": 1}]}
    (tmp_path / "a.pt.trace.json").write_text(json.dumps(content))
    with gzip.open(tmp_path / "b.pt.trace.json.gz", "wt") as file:
        json.dump(content, file)
    for name in ("a.pt.trace.json", "b.pt.trace.json.gz"):
        assert stepprofile.read(tmp_path / name) == [step(0)]
