"""Downloads a model from Hugging Face with the release's own huggingface_hub."""

import argparse
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hostkit.host import paths, process
from hostkit.host.jobs import progress
from hostkit.model import hubfiles, modelconfig, weights

_POLL_S = 2.0
_INHERITED = re.compile(r"PATH|SSL_CERT_(FILE|DIR)|(https?|all|no)_proxy", re.IGNORECASE)
# The system's store also has an operator's own authority; the client's own bundle does not.
_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"

# Pickled weights are left out: vLLM reads safetensors.
_PATTERNS = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja", "*.py")

# Runs in the release's environment.
_DOWNLOAD = """
import json, sys
from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import HfHubHTTPError
repository, revision, folder, listing, *patterns = sys.argv[1:]
try:
    snapshot_download(repository, revision=revision, local_dir=folder, allow_patterns=patterns)
    entries = HfApi().list_repo_tree(repository, revision=revision, recursive=True)
    files = [each for each in entries if hasattr(each, "blob_id")]
    with open(listing, "w") as file:
        json.dump({
            each.path: f"sha256:{each.lfs.sha256}" if each.lfs else f"git:{each.blob_id}"
            for each in files
        }, file)
except (HfHubHTTPError, OSError, ValueError) as error:
    sys.exit("error: " + " ".join(str(error).split())[:400])
"""


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("fetch-model", help="download a model's folder")
    parser.add_argument("repository")
    parser.add_argument("revision")
    parser.add_argument("folder", type=Path)
    parser.add_argument("release")
    parser.add_argument("--endpoint", help="another server that speaks Hugging Face's protocol")
    modelconfig.add_options(parser)
    parser.set_defaults(run=fetch, fetches=True)


def fetch(args: argparse.Namespace) -> int:
    """Download into `<folder>.new`, where an interrupted download goes on; rename when complete."""
    staged = args.folder.with_name(f"{args.folder.name}.new")
    staged.mkdir(parents=True, exist_ok=True)
    _download(args, staged, ["config.json"])
    misfits = modelconfig.misfits(staged, **modelconfig.options(args))
    if misfits:
        raise process.Failure(f"{args.repository}: {'; '.join(misfits)}")
    _download(args, staged, _PATTERNS)
    problems = weights.problems(staged)
    if problems:
        raise process.Failure(f"{args.repository} is no model for vLLM: {'; '.join(problems)}")
    shutil.rmtree(staged / ".cache", ignore_errors=True)
    (staged / weights.MARKER).write_text(f"{args.repository}@{args.revision}")
    for path in [staged, *staged.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    if args.folder.exists():
        shutil.rmtree(args.folder)
    os.replace(staged, args.folder)
    return 0


def _download(args: argparse.Namespace, staged: Path, patterns: Sequence[str]) -> None:
    """Download files, and compare the content of all that are there with the repository's."""
    python = paths.RELEASES / args.release / "venv/bin/python"
    listing = staged / ".cache/listing.json"
    listing.parent.mkdir(exist_ok=True)
    wanted = [args.repository, args.revision, staged, listing, *patterns]
    command = [python, "-IB", "-c", _DOWNLOAD, *wanted]
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        with subprocess.Popen(
            command, env=_environment(staged, args.endpoint), stdout=log, stderr=log
        ) as download:
            while download.poll() is None:
                progress(f"downloading {args.repository}: {_size(staged) / 1e9:.2f} GB so far")
                time.sleep(_POLL_S)
        log.seek(0)
        output = log.read()
    what = f"{args.repository} at {args.revision[:12]}"
    if download.returncode:
        raise process.Failure(f"{what}: {process.reason(output, download.returncode)}")
    progress(f"checking {args.repository}")
    differing = hubfiles.differing(staged, process.read_json(listing))
    for name in differing:
        (staged / name).unlink()
    if differing:
        raise process.Failure(
            f"{what}: {', '.join(differing)} came with another content than the repository states, "
            "and was removed: run this again"
        )


def _environment(staged: Path, endpoint: str | None) -> dict[str, str]:
    env = {
        "HF_HOME": str(staged / ".cache"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }
    if endpoint:
        env["HF_ENDPOINT"] = endpoint
    if paths.TOKEN.is_file():
        env["HF_TOKEN"] = paths.TOKEN.read_text().strip()
    inherited = {name: text for name, text in os.environ.items() if _INHERITED.fullmatch(name)}
    defaults = {"PATH": "/usr/bin:/bin", "HOME": str(staged), "SSL_CERT_FILE": _CERTIFICATES}
    return defaults | inherited | env


def _size(folder: Path) -> int:
    """Bytes on disk below a folder whose files may vanish while they are counted."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_blocks * 512
        except OSError:
            continue
    return total
