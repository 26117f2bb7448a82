"""The quality check's two passes: computed, and after the KV was pushed down to RAM or SSD.

The server is an imitation: it keeps what it was asked as the stand-in's tiers do.
"""

from types import SimpleNamespace

import pytest

from hostkit.generation import generations
from hostkit.host import paths, units
from hostkit.host.process import Failure
from hostkit.measure import quality, questions, restore
from hostkit.serving import goodstart, server
from hostkit.serving.goodstart import Start
from tests.rehearsal.standin.tiers import BYTES_PER_TOKEN, Tiers

SERVER = server.Server(1, 1, "http://127.0.0.1:1", "m", "0")
POOL, RAM = 6000, 4000


@pytest.fixture
def serve(monkeypatch, capsys):
    """Start an imitation with these tiers; `bad` answers wrongly from that tier."""

    def start(ram_tokens, ssd, *, bad=False, context=2048, thinks=False):
        tiers = Tiers(POOL, ram_tokens * BYTES_PER_TOKEN, ssd)
        below = restore.Tiers(ram_tokens * BYTES_PER_TOKEN, ssd) if ram_tokens else None
        answers = {each.text: each.expected for each in questions.of(context)}
        seen = SimpleNamespace(options=[], tiers=tiers)

        def message(_server, text, options, timeout_s):
            seen.options.append(options)
            restored = tiers.take(f"{options['cache_salt']} {text}")
            return {"content": "none" if bad and restored else answers[text]}

        def metrics(_server):
            return "".join(f"vllm:{k} {v}\n" for k, v in tiers.metrics().items())

        note = {"max_model_len": context, "thinks": thinks}
        monkeypatch.setattr(generations, "note", lambda _number: note)
        monkeypatch.setattr(restore, "pool_tokens", lambda _number: POOL)
        monkeypatch.setattr(restore, "tiers", lambda _number: below)
        monkeypatch.setattr(server, "message", message)
        monkeypatch.setattr(server, "metrics", metrics)
        monkeypatch.setattr(
            server,
            "complete",
            lambda _s, prompt, tokens, cache_salt: tiers.take(f"{cache_salt} {prompt}"),
        )
        return seen

    return start


def test_without_offload_the_questions_are_asked_once(serve, capsys):
    seen = serve(0, ssd=False)
    assert quality.measure(SERVER) == 1.0
    assert len(seen.options) == len(questions.short())
    assert "quality 100%, computed" in capsys.readouterr().out


def test_with_an_ssd_tier_the_second_pass_comes_from_there(serve, capsys):
    seen = serve(RAM, ssd=True)
    assert quality.measure(SERVER) == 1.0
    said = capsys.readouterr().out
    assert "pushing it out of the GPU and of RAM" in said
    assert "quality 100% computed, 100% with " in said
    assert " MB of it from SSD" in said
    assert "warning" not in said
    # Every question of the second pass was read from SSD, none from RAM.
    assert seen.tiers.read == seen.tiers.hits * BYTES_PER_TOKEN > 0


def test_with_ram_only_it_comes_from_ram(serve, capsys):
    serve(100_000, ssd=False)
    assert quality.measure(SERVER) == 1.0
    said = capsys.readouterr().out
    assert "pushing it out of the GPU\n" in said
    assert "SSD" not in said
    assert "warning" not in said


@pytest.mark.parametrize("ssd", [True, False])
def test_worse_answers_from_restored_kv_are_a_failure(serve, ssd):
    serve(RAM if ssd else 100_000, ssd=ssd, bad=True)
    with pytest.raises(Failure, match="from restored KV are worse: 0% right, 100% computed"):
        quality.measure(SERVER)


def test_what_nothing_came_back_of_is_not_counted_as_compared(serve, capsys):
    serve(1, ssd=False)
    assert quality.measure(SERVER) == 1.0
    assert "warning: no KV came back from RAM or SSD" in capsys.readouterr().out


def test_what_came_from_ram_is_not_taken_for_the_ssd(serve, capsys, monkeypatch):
    serve(10_000_000, ssd=True)
    monkeypatch.setattr(restore, "LIMIT_S", 0.5)
    assert quality.measure(SERVER) == 1.0
    said = capsys.readouterr().out
    assert "have not filled it" in said
    assert "warning: no KV came back from SSD" in said


def test_a_model_with_room_gets_the_long_problems_and_one_that_thinks_thinks(serve):
    seen = serve(0, ssd=False, context=65_536, thinks=True)
    quality.measure(SERVER)
    assert len(seen.options) == len(questions.short()) + 15
    for options in seen.options:
        assert options["chat_template_kwargs"] == {"enable_thinking": True}
        assert options["max_tokens"] == quality.THINKING_TOKENS
        assert options["cache_salt"]


def test_each_check_computes_anew(serve):
    seen = serve(RAM, ssd=True)
    quality.measure(SERVER)
    quality.measure(SERVER)
    assert len({options["cache_salt"] for options in seen.options}) == 2


def test_the_pool_is_that_of_this_start_and_else_of_the_last_one_on_record(monkeypatch):
    log: list[str] = []
    monkeypatch.setattr(units, "show", lambda *_names: {"InvocationID": "id"})
    monkeypatch.setattr(units, "journal", lambda _invocation: log)
    monkeypatch.setattr(goodstart, "of_generation", lambda _n: None)
    assert restore.pool_tokens(3) == 0
    monkeypatch.setattr(goodstart, "of_generation", lambda _n: Start(1, kv_tokens=POOL))
    assert restore.pool_tokens(3) == POOL
    log.append("GPU KV cache size: 293,040 tokens, Maximum concurrency")
    assert restore.pool_tokens(3) == 293_040


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"port": 1\n', None),
        ('"x": {"cpu_bytes_to_use": 512, "eviction_policy": "lru"}\n', restore.Tiers(512, False)),
        (
            '"x": {"cpu_bytes_to_use": 512, "secondary_tiers": [{"type": "fs"}]}\n',
            restore.Tiers(512, True),
        ),
    ],
)
def test_a_generation_says_which_tiers_it_has(tmp_path, monkeypatch, text, found):
    monkeypatch.setattr(paths, "GENERATIONS", tmp_path)
    (tmp_path / "3").mkdir()
    (tmp_path / "3/serve.yaml").write_text(text)
    assert restore.tiers(3) == found
