"""A generation: a release together with what it is told."""

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tasks.shared.engine import formats, needs, proofs, serving
from tasks.shared.release import patches
from tasks.shared.release.releases import Release
from tasks.shared.trees import Link, Tree

if TYPE_CHECKING:
    from tasks.shared.settings import Settings

GENERATIONS_DIR = "/opt/vllm/generations"
CURRENT = "/opt/vllm/current"
"""A link to the generation that a start is of."""
NOTE = "generation.json"
_TOLD = ("release", "serve.yaml", "vllm.env", "vllm.service")
_DIGEST = "GENERATION_DIGEST="


@dataclass(frozen=True)
class Generation:
    """The content of /opt/vllm/generations/<n>/. Equal digests are the same generation."""

    digest: str
    files: dict[str, str | Link]

    @property
    def note(self) -> str:
        """The text that says what this generation is."""
        return str(self.files[NOTE])

    @property
    def files_but_note(self) -> dict[str, str | Link]:
        """What a start needs besides; the digest is part of it."""
        return {name: content for name, content in self.files.items() if name != NOTE}


def wanted(
    settings: "Settings", release: Release, *, weights: str, unit: str, key_digest: str
) -> Generation:
    """The generation that these settings ask for.

    `weights` identifies the model's weights, `unit` is the text of the unit, `key_digest` tells one
    API key from another: a change of any of them reaches a running server only by a restart.
    """
    config = serving.serve_config(settings, kv_fingerprint(settings, weights))
    serve_yaml = formats.serve_yaml(config)
    env = serving.environment(settings, release.name)
    parts = [release.name, serve_yaml, json.dumps(env), unit, weights, key_digest]
    digest = _digest(parts)
    texts = {
        "serve.yaml": serve_yaml,
        "vllm.env": formats.env_file(env | {"GENERATION_DIGEST": digest}),
        "vllm.service": unit,
    }
    note = _note(settings, release, digest, weights=weights, env=env)
    # By these hostkit sees that one of them was edited since.
    note["files"] = {
        name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()
    }
    return Generation(
        digest,
        {
            **texts,
            NOTE: json.dumps(note, indent=2) + "\n",
            "release": Link(f"{serving.RELEASES_DIR}/{release.name}"),
        },
    )


def told(files: Tree) -> dict[str, str | Link]:
    """Of a generation's files those that say what the server is told, without their own hash."""
    return {
        path: content
        if isinstance(content, Link)
        else "".join(
            line for line in content.splitlines(keepends=True) if not line.startswith(_DIGEST)
        )
        for path, content in files.items()
        if path in _TOLD
    }


def _note(
    settings: "Settings", release: Release, digest: str, *, weights: str, env: dict[str, str]
) -> dict[str, Any]:
    """What hostkit has to know of a generation."""
    return {
        "digest": digest,
        "release": release.name,
        "version": release.installed_version,
        "served_model_name": settings.served_model_name,
        "model_dir": settings.model_dir,
        "address": settings.listen_address,
        "port": settings.port,
        # What the quality check asks, and how.
        "max_model_len": settings.max_model_len,
        "thinks": settings.reasoning_parser is not None,
        "kv_offload": settings.kv_ram_gib > 0,
        # What the log of each start must show.
        "proofs": proofs.expected(settings),
        # hostkit compares it at every start: such a folder may change under a generation.
        "weights": weights if settings.source.kind == "host" else None,
        # The gate before each start compares these with the machine, and with what systemd reads.
        "needs": needs.needs(settings),
        "start_limit": needs.limit(settings),
        "environment": env,
    }


def kv_fingerprint(settings: "Settings", weights: str) -> str:
    """The name of the SSD tier's folder: what vLLM's own hash of that folder leaves out.

    Files of another model, patched differently or hashed with another seed, are never read.
    """
    parts = [
        weights,
        settings.vllm_version,
        *patches.texts(settings).values(),
        settings.mamba_ssm_cache_dtype,
        str(settings.python_hash_seed),
    ]
    return _digest(parts)


def _digest(parts: list[str]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]
