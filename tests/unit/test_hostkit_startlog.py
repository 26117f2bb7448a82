"""Reading a server's log."""

from hostkit.generation import startlog

LOADING = """\
hostkit: generation 3, release 0.31.0-abc
(APIServer pid=70) INFO 11-29 10:00:00 [utils.py:300] vLLM API server version 0.31.0
(EngineCore pid=99) INFO 11-29 10:00:09 [core.py:99] Initializing a V1 LLM engine (v0.31.0)
(EngineCore pid=99) INFO 11-29 10:00:10 [gpu_model_runner.py:1] Starting to load model /srv/m...
""".splitlines()

CRASHED = """\
(EngineCore pid=99) ERROR 11-29 10:00:20 [core.py:1500] EngineCore failed to start.
(EngineCore pid=99) ERROR 11-29 10:00:20 [core.py:1500] Traceback (most recent call last):
(EngineCore pid=99) ERROR 11-29 10:00:20 [core.py:1500]   File "x.py", line 1, in f
(EngineCore pid=99) ERROR 11-29 10:00:20 [core.py:1500] ValueError: To serve at least one request
(APIServer pid=70) Traceback (most recent call last):
(APIServer pid=70) RuntimeError: Engine core initialization failed. See root cause above.
""".splitlines()


def test_a_start_is_followed_through_its_phases():
    assert startlog.phase([]) == "starting"
    assert startlog.phase(LOADING[:1]) == "importing vLLM"
    assert startlog.phase(LOADING) == "loading weights"
    assert startlog.phase([*LOADING, "INFO: Application startup complete."]) == "serving"


def test_the_cause_is_shown_and_not_its_consequence():
    found = startlog.last_error(LOADING + CRASHED)
    assert found == "ValueError: To serve at least one request"


def test_a_consequence_is_better_than_nothing():
    assert "Engine core initialization failed" in startlog.last_error(CRASHED[-1:])


def test_a_refusal_of_hostkit_is_the_cause():
    refused = "hostkit: refused: model /srv/m: config.json is missing"
    assert startlog.last_error([*LOADING, refused]) == refused


def test_a_misspelt_flag_is_the_cause():
    line = "vllm serve: error: unrecognized arguments: --max-num-seq 4"
    assert startlog.last_error(["usage: vllm serve [-h]", line]) == line


def test_a_missing_module_is_the_cause():
    lines = ["Traceback (most recent call last):", "ModuleNotFoundError: No module named 'six'"]
    assert startlog.last_error(lines) == "ModuleNotFoundError: No module named 'six'"


def test_without_anything_that_looks_like_an_error_the_last_line_is_shown():
    assert startlog.last_error(["one", "two", ""]) == "two"
    assert startlog.last_error([]) == "it wrote nothing"
