"""Write what the current release consists of to a file on this machine. Changes nothing there."""

import json

from pyinfra import host, state
from pyinfra.api.exceptions import DeployError

from tasks.shared.facts.files import FileBytes, TextTree
from tasks.shared.release import materials
from tasks.shared.release.releases import INPUTS_DIR
from tasks.shared.settings import settings
from tasks.shared.texts import local_path

own = settings()
if own.sbom is None:
    raise DeployError("name the file to write: --data sbom=FILE.cdx.json")
if len(state.activated_hosts) > 1:
    raise DeployError("sbom is of one host: name it with --limit")
kept = host.get_fact(FileBytes, path="/opt/vllm/current/release/manifest.json")
if kept is None:
    raise DeployError(f"{host.name}: no release is current there: deploy.py first")
try:
    manifest = json.loads(kept)
    inputs = host.get_fact(TextTree, path=f"{INPUTS_DIR}/{manifest['name']}")
    texts = {path: text for path, text in inputs.items() if isinstance(text, str)}
    bill = materials.bill(manifest, texts)
    with local_path(own.sbom).open("x", encoding="utf-8") as file:
        file.write(bill)
except (KeyError, TypeError) as error:
    what = f"the manifest.json of its release is of another kind than ours: {error!r}"
    raise DeployError(f"{host.name}: {what}") from error
except ValueError as error:
    raise DeployError(f"{host.name}: {error}") from error
except OSError as error:
    raise DeployError(f"cannot write {own.sbom}: {error.strerror}") from error
host.log(f"Written to {own.sbom}: {len(manifest['records'])} packages of {manifest['name']}")
