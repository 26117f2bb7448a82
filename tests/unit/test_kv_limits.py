"""When the limits of an SSD tier stay on a host whose settings have none."""

import pytest

from hostkit.generation import generations
from hostkit.host import paths
from tasks.shared.engine import formats, kv_tier, serving
from tasks.shared.facts.hostkit import GenerationState, HostState

ON, OFF = {"kv_ssd_gb": 150}, {"kv_ssd_gb": 0}


def state(running=1, **generations):
    found = {
        int(name[1:]): GenerationState(digest=name, verified=verified, ssd_tier=tier)
        for name, (verified, tier) in generations.items()
    }
    return HostState(running=running, current=running, generations=found)


STAY = [
    state(g1=(True, True)),
    state(g1=(False, True)),
    state(g1=(True, False), g2=(True, True)),
    HostState(unknown="hostkit on this host cannot be asked"),
]
GO = [HostState(), state(g1=(True, False)), state(g1=(True, False), g2=(False, True))]


@pytest.mark.parametrize("present", STAY)
def test_they_stay_for_one_that_serves_or_may_be_gone_back_to(make, present):
    assert kv_tier.still_limited(make(**OFF), present)
    assert not kv_tier.still_limited(make(**ON), present)


@pytest.mark.parametrize("present", GO)
def test_they_go_when_none_is_left_that_ever_served(make, present):
    assert not kv_tier.still_limited(make(**OFF), present)


@pytest.mark.parametrize(("own", "expected"), [(ON, True), (OFF, False)])
def test_hostkit_sees_in_serve_yaml_whether_there_is_a_tier(
    make, tmp_path, monkeypatch, own, expected
):
    monkeypatch.setattr(paths, "GENERATIONS", tmp_path)
    assert not generations.has_ssd_tier(1)
    (tmp_path / "1").mkdir()
    config = serving.serve_config(make(**own), kv_fingerprint="0123456789ab")
    (tmp_path / "1/serve.yaml").write_text(formats.serve_yaml(config))
    assert generations.has_ssd_tier(1) == expected
