"""Packages of our own in a release, on a stand-in for vLLM: installed, part of it, or refused."""

import subprocess

from tests.unit.standin_host import NAME, refused

FOLDER = "packages/own-package"
INFO = f"{FOLDER}/own_package-1.0.dist-info"


def add(host):
    for path, text in {
        f"{FOLDER}/own_package/__init__.py": "ANSWER = 42\n",
        f"{INFO}/METADATA": "Metadata-Version: 2.1\nName: own-package\nVersion: 1.0\n",
        f"{INFO}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }.items():
        file = host.inputs / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_it_is_installed_and_in_the_manifest(host):
    add(host)
    assert host.build().returncode == 0
    python = host.release / "venv/bin/python"
    script = "import own_package; print(own_package.ANSWER)"
    said = subprocess.run([python, "-Ic", script], capture_output=True, text=True, check=True)
    assert said.stdout == "42\n"
    manifest = host.manifest()
    assert f"{FOLDER}/own_package/__init__.py" in manifest["inputs"]
    assert "own_package-1.0.dist-info" in manifest["records"]


def test_without_its_metadata_nothing_is_installed(host):
    add(host)
    (host.inputs / INFO / "METADATA").unlink()
    assert "0 .dist-info/METADATA, expected one" in refused(host.build())
    assert host.leftovers() == []


def test_a_changed_one_needs_another_release(host):
    add(host)
    assert host.build().returncode == 0
    (host.inputs / FOLDER / "own_package/__init__.py").write_text("ANSWER = 43\n")
    line = refused(host.build())
    assert line.startswith(f"release {NAME} was built of another {FOLDER}/own_package/__init__.py")
