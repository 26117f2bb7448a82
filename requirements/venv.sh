#!/bin/sh
# Make .venv from requirements/dev.txt; do nothing when it is already that.
#
# The stamp is written last, so a half-made .venv is made again; it names the folder and the
# requirements, so a moved clone or new requirements do the same.
set -eu
cd "$(dirname "$0")/.."

requirements=requirements/dev.txt
stamp=.venv/ready

fail() {
    echo "error: $*" >&2
    exit 1
}

wanted() {
    pwd
    sha256sum "$requirements"
}

# Prints the first Python that the requirements are pinned for. Each one is run, since a name on
# PATH may be a version manager's stub, or a link in the very .venv that is made again.
find_python() {
    for candidate in python3 python3.13 python3.12 python3.11; do
        "$candidate" 2>/dev/null - <<-'END' && return
	import os, sys
	if not (3, 11) <= sys.version_info[:2] <= (3, 13):
	    sys.exit(1)
	print(os.path.realpath(sys.executable))
	END
    done
    return 1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

# Debian and Ubuntu ship ensurepip, without which no venv gets a pip, in a package of its own.
install_ensurepip() {
    package="python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    command -v apt-get >/dev/null || fail "$python has no ensurepip, and there is no apt-get to" \
        "install it with: install the venv module of this Python"
    echo "installing $package with apt-get (a venv needs it)"
    [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && sudo true; } ||
        fail "installing $package needs root or sudo: apt-get install $package"
    as_root apt-get -qq -o DPkg::Lock::Timeout=300 update
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq -y -o DPkg::Lock::Timeout=300 install --no-install-recommends "$package" \
        >/dev/null ||
        fail "apt-get could not install $package: install it by hand, then run this again"
}

# One at a time, as make -j or two terminals would both make it.
exec 9<requirements/venv.sh
flock 9

if .venv/bin/python -c '' 2>/dev/null && wanted | cmp -s - "$stamp"; then
    exit
fi

python=$(find_python) || fail "no Python 3.11 to 3.13 on PATH (python3 is" \
    "$(python3 --version 2>&1 | tail -n 1)): install one, e.g. apt-get install python3.11"
"$python" -c 'import ensurepip' 2>/dev/null || install_ensurepip

echo "making .venv from $requirements with $python"
rm -rf .venv
"$python" -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input \
    --only-binary :all: --require-hashes --requirement "$requirements"
wanted >"$stamp"
