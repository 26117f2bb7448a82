"""A model's folder on the host."""

from pyinfra import host, state
from pyinfra.api import FileUploadCommand, QuoteString, StringCommand, operation
from pyinfra.facts.files import FileContents

from hostkit.model import weights
from tasks.shared import texts
from tasks.shared.facts.answers import NO_ANSWER, NOT_INSTALLED
from tasks.shared.facts.files import FolderHashes
from tasks.shared.facts.hostkit import HostkitProblems
from tasks.shared.models import Demands, ModelSource, content_hashes, content_identity
from tasks.shared.operations.common import Commands, leave_open, refuse
from tasks.shared.operations.jobs import run_job


@operation()
def present(
    source: ModelSource, demands: Demands, release: str, *, endpoint: str | None
) -> Commands:
    """Ensure that a complete model lies in its folder on the host.

    A folder of the host is only checked. One of this machine is uploaded, a repository downloaded;
    an interrupted transfer goes on where it was, and the folder appears when it is complete.

    + source: where the model comes from
    + demands: what the settings ask of its config.json
    + release: the release whose huggingface_hub downloads
    + endpoint: another server to download from; None: Hugging Face's

    models.present(
        name="Provide", source=source, demands=demands, release=release.name, endpoint=None
    )
    """
    folder = source.folder_on_host
    problems = host.get_fact(HostkitProblems, question=["check-model", folder, *demands.options()])
    if problems and problems[0].startswith(NO_ANSWER):
        yield from leave_open(problems[0])
        return
    if source.kind == "host":
        if problems and problems != [NOT_INSTALLED]:
            yield from refuse("; ".join(problems))
        return
    if any(weights.MISFIT in problem for problem in problems):
        yield from refuse("; ".join(problems))
        return
    marker = f"{source.location}@{source.revision}"
    if source.kind == "control":
        marker = content_identity(source.location)
    if not problems and host.get_fact(FileContents, path=f"{folder}/{weights.MARKER}") == [marker]:
        host.noop(f"{folder} is complete")
        return
    if source.kind == "control":
        yield from _upload(source, marker)
    else:
        options = ["--endpoint", endpoint] if endpoint else []
        what = [source.location, source.revision, folder, release]
        yield from run_job(
            f"fetch-{source.revision[:12]}", "fetch-model", *what, *options, *demands.options()
        )


def _upload(source: ModelSource, marker: str) -> Commands:
    folder = source.folder_on_host
    staged = f"{folder}.new"
    yield StringCommand("mkdir -p -m 755", QuoteString(staged))
    wanted = content_hashes(source.location)
    arrived = host.get_fact(FolderHashes, path=staged) if state.is_executing else {}
    local = texts.local_path(source.location)
    missing = [name for name, sha256 in wanted.items() if arrived.get(name) != sha256]
    yield _room(staged, sum((local / name).stat().st_size for name in missing))
    for name in missing:
        yield FileUploadCommand(str(local / name), f"{staged}/{name}")
    sums = "".join(f"{sha256}  {name}\n" for name, sha256 in wanted.items())
    quoted, target = QuoteString(staged), QuoteString(folder)
    yield StringCommand("cd", quoted, "&& sha256sum --check --quiet -", _stdin=[sums])
    yield StringCommand(
        "printf %s", QuoteString(marker), ">", QuoteString(f"{staged}/{weights.MARKER}"),
        "&& chmod -R u=rwX,go=rX", quoted, "&& rm -rf", target, "&& mv -T", quoted, target,
    )  # fmt: skip


def _room(folder: str, size: int) -> StringCommand:
    """Fail in one line where a folder has less room: a transfer only ends with another size."""
    script = (
        'free=$(df --output=avail -B1 "$1" | tail -n 1); test "$free" -ge "$2" || '
        '{ echo "$((free / 1048576)) MiB are free under $1, and what is sent takes '
        '$(($2 / 1048576 + 1)): remove models that no generation uses" >&2; exit 1; }'
    )
    return StringCommand("sh -c", QuoteString(script), "sh", QuoteString(folder), str(size))
