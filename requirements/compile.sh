#!/bin/sh
# Resolve requirements/*.in into hash-pinned *.txt, one set for every supported Python.
#
# usage: requirements/compile.sh [uv pip compile option...]   e.g. --upgrade
#
# The files name no index: pip and uv take theirs from the machine that installs.
set -eu
cd "$(dirname "$0")/.."

for set in control dev ansible; do
    uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-annotate --no-strip-extras \
        --custom-compile-command "make locks" \
        --output-file "requirements/$set.txt" "$@" "requirements/$set.in"
done
