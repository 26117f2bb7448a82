"""A start counts only when its log shows that what was asked for is in force."""

import re

import pytest
from pydantic import ValidationError

from hostkit.generation import proofs as host_proofs
from tasks.shared.engine import proofs
from tasks.shared.settings import Settings

START = "INFO 11-29 20:00:00"
GOOD = [
    f"(Worker_TP0 pid=7) {START} [uva.py:63] Total CPU offloaded parameters: 0.46",
    f"(Worker_TP0 pid=7) {START} [uva.py:63] Total CPU offloaded parameters: 0.46",
    f"(Worker_TP1 pid=8) {START} [uva.py:63] Total CPU offloaded parameters: 0.46",
    f"(Worker_TP0 pid=7) {START} [cuda.py:527] Using TURBOQUANT attention backend out of potential "
    "backends: ['TURBOQUANT'].",
    f"(Worker_TP0 pid=7) {START} [turboquant_attn.py:459] TurboQuant decode: fused kernel, 6 query "
    "heads a KV head, 12 rows at once, 2 programs a multiprocessor",
    f"(Worker_TP0 pid=7) {START} [cuda_communicator.py:322] Using ['PYNCCL'] all-reduce backends "
    "(in dispatch order) for group 'tp:0' out of potential backends: ['CUSTOM', 'PYNCCL'].",
    f"(EngineCore pid=6) {START} [scheduler.py:65] Shortest-first prefill: "
    "AsyncShortestFirstScheduler deals 2048 tokens a step",
]


def missing(settings, lines):
    return host_proofs.missing(proofs.expected(settings), lines)


def test_a_log_that_shows_all_of_the_profile_passes(make):
    assert missing(make(), GOOD) == []


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        ("Total CPU offloaded", "whole vision tower is in RAM"),
        ("Worker_TP1", "in 2 processes, 1 did"),
        ("TURBOQUANT", "turboquant_4bit_nc"),
        ("TurboQuant decode", "the fused kernel decodes"),
        ("all-reduce", "NCCL and nothing else"),
        ("Shortest-first", "the shortest prompt goes first"),
    ],
)
def test_each_line_that_is_not_there_is_named_with_what_it_would_show(make, lost, words):
    (text,) = missing(make(), [line for line in GOOD if lost not in line])
    assert words in text


def test_a_tower_of_which_nothing_was_moved_is_no_proof(make):
    (text,) = missing(make(), [re.sub(r"0\.46$", "0.0", line) for line in GOOD])
    assert "vision tower" in text


def test_a_tower_that_its_allowance_has_cut_off_is_no_proof(make):
    assert missing(make(vision_tower_gib=0.47), GOOD) == []
    (text,) = missing(make(vision_tower_gib=0.46), GOOD)
    assert "below 0.46" in text


def test_another_way_to_all_reduce_beside_nccl_is_no_proof(make):
    both = [line.replace("Using ['PYNCCL']", "Using ['CUSTOM', 'PYNCCL']") for line in GOOD]
    (text,) = missing(make(), both)
    assert "nothing else" in text


def test_what_is_not_asked_for_needs_no_proof(make):
    off = {"vision_tower": "none", "kv_cache_dtype": "auto", "prefill_order": "upstream"}
    assert missing(make(**off, gpus=1), []) == []


def test_the_rehearsal_asks_for_nothing_that_a_cpu_cannot_show(rehearsal):
    (only,) = proofs.expected(Settings.model_validate(rehearsal))
    assert "prefill_order" in only["shows"]


def test_a_log_level_that_hides_the_proofs_is_refused(make):
    with pytest.raises(ValidationError, match="VLLM_LOGGING_LEVEL"):
        make(extra_env={"VLLM_LOGGING_LEVEL": "warning"})
    make(extra_env={"VLLM_LOGGING_LEVEL": "DEBUG"})
