"""The setting that chooses TurboQuant's decode kernel, and what a decode step must move."""

import pytest
from pydantic import ValidationError

from tasks.shared.engine import proofs, serving
from tests.gpu import decode_floor


@pytest.mark.parametrize("kernel", ["fused", "stock"])
def test_the_chosen_kernel_is_rendered(make, kernel):
    assert serving.environment(make(turboquant_decode=kernel), "r")["TQ_DECODE"] == kernel


def test_without_turboquant_nothing_is_said_of_its_kernel(make):
    assert "TQ_DECODE" not in serving.environment(make(kv_cache_dtype="auto"), "r")


def test_stock_needs_no_proof_of_the_fused_kernel(make):
    assert not [e for e in proofs.expected(make(turboquant_decode="stock")) if "fused" in e["line"]]


def test_the_variable_of_the_setting_is_not_given_twice(make):
    with pytest.raises(ValidationError, match="TQ_DECODE: another setting decides that"):
        make(extra_env={"TQ_DECODE": "stock"})


@pytest.mark.parametrize("text", ["0", "33", "two", ""])
def test_a_number_of_programs_that_the_kernel_refuses_is_refused(make, text):
    with pytest.raises(ValidationError, match="TQ_SIMT_CTAS_PER_SM"):
        make(extra_env={"TQ_SIMT_CTAS_PER_SM": text})


def test_a_number_of_programs_passes(make):
    assert serving.environment(make(extra_env={"TQ_SIMT_CTAS_PER_SM": "4"}), "r")


def test_half_precision_models_keep_the_stock_kernel(make):
    with pytest.raises(ValidationError, match="turboquant_decode = 'stock'"):
        make(dtype="float16")
    assert make(dtype="float16", turboquant_decode="stock")


def test_a_version_whose_series_lacks_the_kernel_takes_stock_and_no_full_graphs_with_drafts(make):
    older: dict[str, object] = {"vllm_version": "0.30.0", "accept_risks": ["mtp-with-tiering"]}
    with pytest.raises(ValidationError, match="attends to the draft alone"):
        make(**older, turboquant_decode="stock")
    older |= {"extra_serve_args": {"compilation-config": {"cudagraph_mode": "PIECEWISE"}}}
    with pytest.raises(ValidationError, match=r"'fused' needs the patch .*vLLM 0\.30\.0"):
        make(**older)
    assert make(**older, turboquant_decode="stock")


def test_a_slot_has_the_size_that_vllm_gives_it():
    sizes = {name: decode_floor.Shape(preset=name).slot_bytes for name in decode_floor.PRESETS}
    assert sizes == {
        "turboquant_k8v4": 388,
        "turboquant_4bit_nc": 262,
        "turboquant_k3v4_nc": 230,
        "turboquant_3bit_nc": 198,
    }


def test_a_step_of_60000_tokens_moves_half_a_gigabyte():
    work = decode_floor.work(decode_floor.Shape(), 60000, 1)
    assert work.cache_bytes == 16 * 60000 * 524
    assert work.floor_ms(1000) == pytest.approx(0.503, abs=0.001)
    assert work.dequantised_by_stock == 6 * work.dequantised


def test_the_table_has_a_line_for_each_length_and_batch():
    assert len(decode_floor.table(decode_floor.Shape(), 672).splitlines()) == 2 + 4 * 3
