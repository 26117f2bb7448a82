"""What a release consists of, as a CycloneDX bill of materials; made of what its host keeps of it.

The manifest says what was installed, the release's inputs say by which hashes. The same release
gives the same text.
"""

import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from importlib.metadata import version as version_of
from typing import Any

from cyclonedx.model import (
    AttachedText,
    ExternalReference,
    ExternalReferenceType,
    HashAlgorithm,
    HashType,
    Property,
    XsUri,
)
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import (
    Commit,
    Component,
    ComponentType,
    Diff,
    Patch,
    PatchClassification,
    Pedigree,
)
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

from hostkit.release.wheel import canonical
from tasks.shared.release import locks

SCHEMA = SchemaVersion.V1_6
_LIBRARY = "cyclonedx-python-lib"
_PINNED = re.compile(r"\d{4}-[0-9a-f]{12}\.patch")


def bill(manifest: Mapping[str, Any], inputs: Mapping[str, str]) -> str:
    """CycloneDX JSON of a release.

    `manifest` is its manifest.json, `inputs` the files of the folder that it was built of, by
    relative path. ValueError names an input that is missing or another one than it was built of.
    """
    used = [name for name in manifest["inputs"] if name.startswith(("lock.txt", "plugins.txt"))]
    used += [f"patches/{patch['name']}" for patch in manifest["patches"]]
    texts = {name: _checked(name, inputs.get(name), manifest["inputs"][name]) for name in used}
    hashes = archives("".join(f"{texts[name]}\n" for name in used if name.endswith(".txt")))
    release = Component(
        type=ComponentType.APPLICATION,
        name="vllm-release",
        version=manifest["name"],
        bom_ref="release",
        properties=[
            Property(name=f"release:{key}", value=str(manifest[key]))
            for key in ("route", "accelerator", "python", "built_at")
        ],
    )
    parts = [
        _part(folder.removesuffix(".dist-info"), record, hashes, manifest, texts)
        for folder, record in manifest["records"].items()
    ]
    content = json.dumps([manifest["name"], manifest["records"]], sort_keys=True)
    bom = Bom(
        serial_number=uuid.uuid5(uuid.NAMESPACE_OID, content),
        components=parts,
        metadata=BomMetaData(
            component=release,
            timestamp=datetime.fromisoformat(manifest["built_at"]),
            tools=ToolRepository(components=[_tool()]),
        ),
    )
    bom.register_dependency(release, parts)
    text: str = make_outputter(bom, OutputFormat.JSON, SCHEMA).output_as_string(indent=2)
    return f"{text}\n"


def archives(text: str) -> dict[tuple[str, str], list[str]]:
    """The sha256 sums that lock files pin, by canonical name and version.

    A package has as many as there are archives of it, of which the installer took one.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for pin in locks.pins(text):
        sums = found.setdefault((pin.name, pin.version), [])
        sums += [each for each in pin.sha256 if each not in sums]
    return found


def _checked(name: str, text: str | None, sha256: str) -> str:
    if text is None:
        raise ValueError(f"{name} of this release is not on the host any more")
    if hashlib.sha256(text.encode()).hexdigest() != sha256:
        raise ValueError(f"{name} on the host is not what this release was built of")
    return text


def _part(
    folder: str,
    record: str,
    hashes: Mapping[tuple[str, str], list[str]],
    manifest: Mapping[str, Any],
    texts: Mapping[str, str],
) -> Component:
    name, _, version = folder.rpartition("-")
    name = canonical(name)
    ours = name == "vllm" or f"packages/{name}/" in "".join(manifest["inputs"])
    purl = PackageURL("generic" if ours and name != "vllm" else "pypi", None, name, version)
    sums = hashes.get((name, version), [])
    part = Component(
        type=ComponentType.LIBRARY,
        name=name,
        version=version,
        purl=purl,
        bom_ref=folder,
        # Which of several archives was installed is nobody's record; the only one is known.
        hashes=_hashes(sums) if len(sums) == 1 else [],
        external_references=[_archives(purl, sums)] if sums else [],
        properties=[Property(name="release:record:sha256", value=record)],
    )
    if name == "vllm":
        part.pedigree = _pedigree(manifest, texts)
    return part


def _archives(purl: PackageURL, sums: Iterable[str]) -> ExternalReference:
    return ExternalReference(
        type=ExternalReferenceType.DISTRIBUTION,
        url=XsUri(purl.to_string()),
        comment="one of these archives: all that the lock allows",
        hashes=_hashes(sums),
    )


def _hashes(sums: Iterable[str]) -> list[HashType]:
    return [HashType(alg=HashAlgorithm.SHA_256, content=each) for each in sums]


def _pedigree(manifest: Mapping[str, Any], texts: Mapping[str, str]) -> Pedigree:
    """What vLLM was before: a wheel, an archive or a commit; and each patch with its text."""
    origin = manifest.get("wheel") or manifest["source"]
    notes = [f"{each['name']}: {each['state']}" for each in manifest["patches"]]
    pedigree = Pedigree(
        patches=[_patch(each["name"], texts) for each in manifest["patches"]],
        notes="\n".join(notes) or "no patches",
    )
    if "commit" in origin:
        pedigree.commits.add(Commit(uid=origin["commit"], url=XsUri(origin["url"])))
    else:
        pedigree.ancestors.add(
            Component(
                type=ComponentType.LIBRARY,
                name=origin["name"],
                version=origin["version"],
                purl=PackageURL("pypi", None, origin["name"], origin["version"]),
                hashes=_hashes([origin["sha256"]]),
            )
        )
    return pedigree


def _patch(name: str, texts: Mapping[str, str]) -> Patch:
    kind = PatchClassification.UNOFFICIAL
    if _PINNED.fullmatch(name):
        kind = PatchClassification.CHERRY_PICK
    diff = AttachedText(content=texts[f"patches/{name}"], content_type="text/x-diff")
    return Patch(type=kind, diff=Diff(text=diff, url=XsUri(f"patches/{name}")))


def _tool() -> Component:
    return Component(type=ComponentType.LIBRARY, name=_LIBRARY, version=version_of(_LIBRARY))
