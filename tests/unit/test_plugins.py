"""Plugins of a release: installed by hash beside vLLM, part of what names the release."""

import json

import pytest
from pydantic import ValidationError

from tasks.shared.release import releases
from tasks.shared.settings import describe
from tests.unit import standin_vllm as standin
from tests.unit.standin_host import refused

FILES = {
    "standin_plugin.py": b"def register(): ...\n",
    "standin_plugin-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: standin-plugin\n"
    b"Version: 1.0\n",
    "standin_plugin-1.0.dist-info/WHEEL": standin.WHEEL.replace(
        "cp312-cp312-linux_x86_64", "py3-none-any"
    ).encode(),
    "standin_plugin-1.0.dist-info/entry_points.txt": b"[vllm.general_plugins]\n"
    b"standin = standin_plugin:register\n",
}
PLUGIN = f"standin-plugin==1.0 --hash=sha256:{'0' * 64}"


@pytest.fixture
def plugin(host):
    return standin.write_wheel(host.links / "standin_plugin-1.0-py3-none-any.whl", FILES)


def test_a_plugin_is_installed_with_its_entry_point(host, plugin):
    host.pin("plugins.txt", "standin-plugin==1.0", plugin)
    assert host.build().returncode == 0
    info = host.site() / "standin_plugin-1.0.dist-info/entry_points.txt"
    assert "vllm.general_plugins" in info.read_text()
    assert "plugins.txt" in host.manifest()["inputs"]


def test_a_plugin_with_another_hash_is_refused_and_nothing_is_left(host, plugin):
    (host.inputs / "plugins.txt").write_text(f"{PLUGIN}\n")
    assert "standin" in refused(host.build())
    assert host.leftovers() == []


def test_a_plugin_whose_dependency_is_not_named_is_refused(host):
    metadata = FILES["standin_plugin-1.0.dist-info/METADATA"] + b"Requires-Dist: not-there\n"
    files = FILES | {"standin_plugin-1.0.dist-info/METADATA": metadata}
    wheel = standin.write_wheel(host.links / "standin_plugin-1.0-py3-none-any.whl", files)
    host.pin("plugins.txt", "standin-plugin==1.0", wheel)
    assert "not-there" in refused(host.build())
    assert host.leftovers() == []


def test_another_plugin_under_the_same_release_name_is_refused(host, plugin):
    host.pin("plugins.txt", "standin-plugin==1.0", plugin)
    assert host.build().returncode == 0
    (host.inputs / "plugins.txt").unlink()
    assert "built of another plugins.txt" in refused(host.build())


def test_plugins_name_the_release(make):
    plain, other = releases.wanted(make()), releases.wanted(make(plugins=[PLUGIN]))
    assert plain.name != other.name
    assert other.inputs["plugins.txt"] == f"{PLUGIN}\n"
    assert "plugins.txt" not in plain.inputs
    assert json.loads(plain.inputs["spec.json"])["name"] == plain.name


@pytest.mark.parametrize(
    ("plugins", "reason"),
    [
        (["some-quant"], "name==version --hash"),
        (["some-quant==1.0"], "name==version --hash"),
        (["some-quant>=1.0 --hash=sha256:" + "0" * 64], "name==version --hash"),
        (["some-quant==1.0 --hash=sha256:" + "0" * 63], "name==version --hash"),
        (["./some.whl --hash=sha256:" + "0" * 64], "name==version --hash"),
        ([PLUGIN.replace("standin-plugin", name) for name in ("a-b", "A_b")], "named twice"),
        ([PLUGIN.replace("standin-plugin", "Torch")], "torch is in files/locks already"),
    ],
)
def test_a_plugin_is_pinned_and_comes_on_top(make, plugins, reason):
    with pytest.raises(ValidationError) as caught:
        make(plugins=plugins)
    (line,) = describe("box", caught.value)
    assert reason in line
    make(plugins=[PLUGIN])
