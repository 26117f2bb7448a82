"""What a plan says of an upgrade, and when its hash changes."""

import pytest

from tasks.shared.generation import generations
from tasks.shared.generation.plans import Side, plan
from tasks.shared.release import releases


@pytest.fixture
def side(make):
    def of(**changes):
        settings = make(**changes)
        release = releases.wanted(settings)
        parts = {"weights": "w", "unit": "[Unit]\n", "key_digest": "k"}
        return Side(generations.wanted(settings, release, **parts).files, release.inputs)

    return of


def compared(before, after, **known):
    known = {"tier_bytes": 140_000_000_000, "usual_start_s": 95.0, "drain_s": 30} | known
    return plan(before, after, **known)


def test_nothing_to_do_is_said_and_is_a_plan_too(side):
    found = compared(side(), side())
    assert found.lines[0] == "nothing changes"
    assert not any("downtime" in line for line in found.lines)


def test_a_changed_flag_is_shown_as_what_it_was_and_will_be(side):
    found = compared(side(), side(max_num_seqs=8))
    assert "flags: - max-num-seqs: 16" in found.changes
    assert "flags: + max-num-seqs: 8" in found.changes
    assert len(found.changes) == 2
    assert "SSD tier: its 140.0 GB stay readable" in found.outlook
    assert any(line.startswith("expected downtime: 95 s") for line in found.outlook)


def test_kv_that_cannot_be_read_any_more_is_counted(side):
    found = compared(side(), side(python_hash_seed=7))
    assert "SSD tier: 140.0 GB become unreachable" in found.outlook


def test_another_release_is_shown_with_its_version_patches_and_packages(side):
    before = side()
    inputs = dict(before.inputs)
    inputs["spec.json"] = inputs["spec.json"].replace('"0.31.0"', '"0.30.0"')
    inputs["lock.txt"] = inputs["lock.txt"].replace("pyyaml==", "pyyaml==0.", 1)
    inputs["patches/0099-old.patch"] = "old"
    note = str(before.generation["generation.json"]).replace("0.31.0-", "0.30.0-")
    older = Side({**before.generation, "generation.json": note}, inputs)
    changes = compared(older, before).changes
    assert changes[0].startswith("release: 0.30.0-")
    assert "vLLM: 0.30.0 -> 0.31.0" in changes
    assert any(line.startswith("patch: - 0099-old.patch (") for line in changes)
    back = compared(before, older).changes
    assert any(line.startswith("patch: + 0099-old.patch (") for line in back)
    assert any(line.startswith("package: pyyaml 0.") for line in changes)


def test_a_plugin_and_a_package_of_several_versions_are_shown_as_they_change(side):
    hashes = f" --hash=sha256:{'0' * 64}"
    found = compared(side(plugins=[f"some-quant==1.0{hashes}"]), side())
    assert "package: some-quant 1.0 -> none" in found.changes
    after = side()
    two = f"numpy==2.2.6 ; python_version < '3.11' \\\n   {hashes}\nnumpy==2.3.0 \\\n   {hashes}\n"
    locks = [two, two.replace("2.2.6", "2.2.7")]
    old, new = (Side(after.generation, {**after.inputs, "lock.txt": lock}) for lock in locks)
    assert compared(old, new).changes == ("package: numpy 2.2.6 or 2.3.0 -> 2.2.7 or 2.3.0",)


def test_a_changed_unit_and_environment_are_shown_without_the_releases_own_paths(side):
    before = side()
    unit = {**before.generation, "vllm.service": "[Unit]\nX=1\n"}
    assert compared(before, Side(unit, before.inputs)).changes == ("unit: + X=1",)
    found = compared(before, side(extra_env={"A": "1"}))
    assert found.changes == ('environment: + A="1"',)


def test_the_hash_is_that_of_what_changes_and_of_nothing_else(side):
    before, after = side(), side(max_num_seqs=8)
    agreed = compared(before, after).hash
    assert compared(before, after, tier_bytes=5, usual_start_s=None).hash == agreed
    assert compared(before, side(max_num_seqs=9)).hash != agreed
    assert compared(side(max_num_seqs=4), after).hash != agreed


def test_a_host_that_has_nothing_gets_a_plan(side):
    found = compared(Side({}, {}), side(), tier_bytes=0, usual_start_s=None)
    assert found.changes
    assert not any("downtime" in line for line in found.outlook)
