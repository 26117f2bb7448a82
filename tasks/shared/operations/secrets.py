"""Files whose content must never be shown."""

import hashlib
from collections.abc import Callable

from pyinfra import host, state
from pyinfra.api import QuoteString, StringCommand, operation

from tasks.shared import credentials
from tasks.shared.facts.files import SecretFileMatches
from tasks.shared.operations.common import Commands, refuse


@operation()
def secret_file(
    path: str, content: str, *, before_upload: Callable[[], None] | None = None
) -> Commands:
    """Ensure a file of root's with mode 0600. Its content is in no diff, log or command line.

    It travels on standard input, and gets its name from a folder that nobody else may enter.

    + path: the file on the host
    + content: its whole text; a missing newline at its end is added
    + before_upload: called once when the file is really going to be written

    secret_file(name="Write the token", path="/etc/vllm/hf_token", content=text)
    """
    # pyinfra ends every line of standard input.
    content = content if content.endswith("\n") else f"{content}\n"
    wanted = hashlib.sha256(content.encode()).hexdigest()
    if host.get_fact(SecretFileMatches, path=path, sha256=wanted):
        host.noop(f"{path} is up to date")
        return
    if before_upload and state.is_executing:
        try:
            before_upload()
        except OSError as error:
            yield from refuse(f"cannot write {error.filename}: {error.strerror}")
            return
    target, folder = QuoteString(path), QuoteString(f"{path}.new")
    staged = QuoteString(f"{path}.new/content")
    # A connection that breaks ends standard input early: only the whole text gets the name.
    yield StringCommand(
        "umask 077 && rm -rf", folder, "&& mkdir", folder, "&& cat >", staged,
        "&& echo", QuoteString(f"{wanted}  {path}.new/content"), "| sha256sum --check --status",
        "&& sync -f", staged, "&& mv -fT", staged, target, "&& rmdir", folder, _stdin=[content],
    )  # fmt: skip


@operation()
def api_key(file: str, key: str) -> Commands:
    """Ensure the API key of the server; a new one is kept on this machine before it is sent.

    + file: where it is kept here
    + key: what it is

    api_key(name="Write the API key", file="secrets/api_key", key=credentials.api_key(file))
    """
    yield from secret_file._inner(
        path=credentials.KEY,
        content=credentials.env_file(key),
        before_upload=lambda: credentials.save_api_key(file, key),
    )
