"""Run by a release's own Python: load compiled modules, each in a process of its own.

usage: python -IB compiled.py PATH...

Prints one JSON object a line: {"path": …, "error": …}, error null where the module loads. Only the
compiled module is loaded, not the packages above it, whose code may ask for a GPU.
"""

import importlib.util
import json
import os
import sys
from importlib.machinery import ExtensionFileLoader


def load(path: str) -> None:
    """Load one shared object as the loader of `import` does; raise what it raises."""
    name = os.path.basename(path).split(".")[0]
    loader = ExtensionFileLoader(name, path)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    try:
        importlib.util.module_from_spec(spec)
    except ImportError as error:
        # vllm/_C_AVX2 and the like are loaded for the operators they register, under another name
        # than the module's that they were built as.
        if "dynamic module does not define module export function" not in str(error):
            raise


def load_apart(path: str) -> str | None:
    """Load in a child process; return the error's text, None where there is none."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            load(path)
            error = ""
        except BaseException as caught:
            error = f"{caught}" or type(caught).__name__
        os.write(writing, error.encode())
        os._exit(1 if error else 0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8", errors="replace") as pipe:
        error = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"killed by signal {os.WTERMSIG(status)} while loading"
    return error or None


if __name__ == "__main__":
    if importlib.util.find_spec("torch"):
        importlib.import_module("torch")  # its libraries are what the modules link against
    for each in sys.argv[1:]:
        print(json.dumps({"path": each, "error": load_apart(each)}), flush=True)
