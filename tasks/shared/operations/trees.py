"""Folders of text files that appear as a whole."""

from pyinfra import host
from pyinfra.api import QuoteString, StringCommand, operation

from tasks.shared import trees
from tasks.shared.facts.files import TextTree
from tasks.shared.operations.common import LONGEST, Commands, publish_folder, show_differences


@operation()
def folder(path: str, tree: trees.Tree) -> Commands:
    """Ensure a folder with exactly these files, replaced in one rename.

    + path: the folder on the host
    + tree: relative path to text, or to a `Link`

    trees.folder(name="Upload the patches", path="/opt/x", tree={"a.patch": "..."})
    """
    present = host.get_fact(TextTree, path=path)
    if present == tree:
        host.noop(f"{path} is up to date")
        return
    show_differences(path, present, tree, LONGEST)
    yield publish_folder(path, tree)


@operation()
def program(path: str, tree: trees.Tree) -> Commands:
    """Ensure a program of several files that may be running while it is replaced.

    `path` is a link to <path>.d/<hash>, moved in one step; the version before is kept, older ones
    are removed.

    + path: the link on the host
    + tree: relative path to text

    trees.program(name="Install hostkit", path="/opt/vllm/hostkit", tree=trees.read(...))
    """
    version = f"{path}.d/{trees.digest(tree)}"
    present = host.get_fact(TextTree, path=path)
    if present == tree:
        host.noop(f"{path} is up to date")
        return
    show_differences(path, present, tree, LONGEST)
    yield publish_folder(version, tree)
    link, fresh = QuoteString(path), QuoteString(f"{path}.new")
    yield StringCommand("ln -sfnT", QuoteString(version), fresh, "&& mv -fT", fresh, link)
    yield StringCommand("ls -1dt", f"{path}.d/*/", "| tail -n +3 | xargs -r rm -rf")
