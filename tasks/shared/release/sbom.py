"""The bill of materials of the release that is current on a host, as a file of this machine."""

import json

from pyinfra import host, state
from pyinfra.api.exceptions import DeployError

from tasks.shared import texts
from tasks.shared.facts.files import FileBytes, TextTree
from tasks.shared.generation.generations import CURRENT
from tasks.shared.release import materials
from tasks.shared.release.releases import INPUTS_DIR
from tasks.shared.settings import Settings


def write(own: Settings) -> None:
    """Write `sbom` for the host at hand. Raises DeployError."""
    if own.sbom is None:
        raise DeployError("name the file to write: --data sbom=FILE.cdx.json")
    if len(state.activated_hosts) > 1:
        raise DeployError("sbom is of one host: name it with --limit")
    try:
        name, bill = _made()
    except (KeyError, TypeError) as error:
        what = f"the manifest.json of its release is of another kind than ours: {error!r}"
        raise DeployError(f"{host.name}: {what}") from error
    except ValueError as error:
        raise DeployError(f"{host.name}: {error}") from error
    try:
        with texts.local_path(own.sbom).open("x", encoding="utf-8") as file:
            file.write(bill)
    except OSError as error:
        raise DeployError(f"cannot write {own.sbom}: {error.strerror}") from error
    host.log(f"Written to {own.sbom}: what {name} consists of")


def _made() -> tuple[str, str]:
    """Name and bill of the release. ValueError, KeyError and TypeError as `materials.bill`."""
    kept = host.get_fact(FileBytes, path=f"{CURRENT}/release/manifest.json")
    if kept is None:
        raise ValueError("no release is current there: deploy.py first")
    manifest = json.loads(kept)
    inputs = host.get_fact(TextTree, path=f"{INPUTS_DIR}/{manifest['name']}")
    return manifest["name"], materials.bill(
        manifest, {path: text for path, text in inputs.items() if isinstance(text, str)}
    )
