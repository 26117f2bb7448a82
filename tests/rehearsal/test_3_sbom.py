"""The bill of materials of a release that serves, against what is installed there."""

import json

from cyclonedx.validation.json import JsonStrictValidator

from hostkit.release.wheel import canonical
from tasks.shared.release import materials

from . import deploys

PYTHON = "/opt/vllm/current/release/venv/bin/python"
LISTED = "import importlib.metadata as m; [print(d.name, d.version) for d in m.distributions()]"


def bill(host, file):
    return deploys.pyinfra("tasks/sbom.py", "--data", f"sbom={file}", host=host)


def test_it_names_what_is_installed_and_every_patch(deployed, tmp_path):
    file = tmp_path / "release.cdx.json"
    done = bill(deployed, file)
    assert done.returncode == 0, done.stderr
    text = file.read_text()
    assert JsonStrictValidator(materials.SCHEMA).validate_str(text) is None
    found = {(each["name"], each["version"]): each for each in json.loads(text)["components"]}
    listed = deploys.on_host(f'{PYTHON} -IBc "{LISTED}"', host=deployed).splitlines()
    installed = {(canonical(name), version) for name, version in map(str.split, listed)}
    assert found.keys() == installed
    pinned = [name for (name, _), each in found.items() if "externalReferences" in each]
    assert len(pinned) == len(found) - sum(name.startswith("vllm") for name, _ in found)

    (vllm,) = (each for (name, _), each in found.items() if name == "vllm")
    patches = "ls /opt/vllm/inputs/$(basename $(readlink -f /opt/vllm/current/release))/patches"
    named = {each["diff"]["url"] for each in vllm["pedigree"]["patches"]}
    applied = deploys.on_host(patches, host=deployed).split()
    assert named == {f"patches/{name}" for name in applied if name.endswith(".patch")}
    assert len(named) >= 2

    again = bill(deployed, file)
    assert again.returncode == 1
    assert "is there already: name another file" in again.stderr
    assert file.read_text() == text
