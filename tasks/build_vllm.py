"""Build the release that the settings ask for, beside whatever serves."""

from tasks.shared.operations import trees, vllm
from tasks.shared.release import releases
from tasks.shared.settings import settings

release = releases.wanted(settings())

trees.folder(
    name="Upload the release's inputs",
    path=f"{releases.INPUTS_DIR}/{release.name}",
    tree=release.inputs,
)
vllm.release_built(
    name=f"Build release {release.name}",
    release=release,
    # What one host has compiled the next ones install.
    _serial=release.is_compiled,
)
