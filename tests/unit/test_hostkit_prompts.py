"""The texts of a load test, and what is asked of vLLM's benchmark."""

import pytest

from hostkit.measure import benchmark, prompts

ALL = (*prompts.GENRES, prompts.NOISE)


@pytest.mark.parametrize("genre", ALL)
def test_a_text_is_as_long_as_was_asked_and_always_the_same(genre):
    body = prompts.text(genre, 700, "a").rpartition("\n\n")[0]
    assert len(body.split()) == 700
    assert prompts.text(genre, 700, "a") == prompts.text(genre, 700, "a")


@pytest.mark.parametrize("genre", ALL)
def test_no_two_salts_share_more_than_their_first_words(genre):
    one, two = (prompts.text(genre, 300, salt) for salt in ("1-1-0", "1-1-1"))
    shared = next(n for n, (a, b) in enumerate(zip(one, two, strict=False)) if a != b)
    assert shared < len("Reference 1-1-1.")


def test_code_keeps_its_lines_and_indents():
    assert "\n    for index, item in enumerate(" in prompts.text("code", 100, "a")


def test_prompts_hold_at_most_the_tokens_that_were_asked_for():
    run = benchmark.Run("real, mixed", "real", (100, 1000, 5000, 200, 64), 32, 2)
    rows = benchmark.texts(run, "salt", lambda _genre: (1.5, 40))
    tokens = [40 + 1.5 * len(row["prompt"].rpartition("\n\n")[0].split()) for row in rows]
    assert all(0.75 * n < got <= n for n, got in zip(run.tokens, tokens, strict=True))
    assert {row["output_tokens"] for row in rows} == {32}
    assert len({row["prompt"].split("\n")[-1] for row in rows}) == len(prompts.GENRES)


def test_synthetic_prompts_are_random_words():
    run = benchmark.Run("synthetic, short", "synthetic", (100, 100), 32, 2)
    rows = benchmark.texts(run, "salt", lambda _genre: (3.0, 0))
    assert all(row["prompt"].endswith("Continue.") for row in rows)


def test_a_result_is_kept_with_our_names_and_its_first_error():
    found = benchmark.figures(
        {
            "completed": 3,
            "failed": 1,
            "errors": ["", "Traceback\n  …\nBad Request", ""],
            "duration": 3.456,
            "total_input_tokens": 10,
            "total_output_tokens": 20,
            "output_throughput": 12.34567,
            "p50_ttft_ms": 466.14,
            "request_goodput": None,
        }
    )
    assert found["figures"] == {"answer_tokens_per_s": 12.346, "first_token_p50_ms": 466.14}
    assert found["error"] == "Bad Request"
    assert (found["completed"], found["failed"], found["seconds"]) == (3, 1, 3.46)
