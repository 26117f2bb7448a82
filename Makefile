# Every target sets up what it needs by itself: a .venv, and with apt what a test needs besides.
PYTHON := .venv/bin/python
# uv otherwise trusts its own certificates only, pip and apt the machine's.
export UV_SYSTEM_CERTS ?= 1

.DEFAULT_GOAL := help
.PHONY: help venv rehearse test lint audit locks pin-patch new-version campaign clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*##/  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

rehearse: venv  ## deploy to a throwaway systemd host and ask the served model a question
	@$(PYTHON) -m tests.rehearsal.rehearse

test: lint  ## everything that needs no GPU: lint, unit tests, rehearsal
	@$(PYTHON) -m pytest --numprocesses=2 --dist=loadscope

campaign: venv  ## every case of what `make test` tries once; hours
	@$(PYTHON) -m pytest -m campaign

lint: venv  ## ruff and mypy
	@$(PYTHON) -m ruff check --quiet .
	@$(PYTHON) -m ruff format --check --quiet .
	@$(PYTHON) -m mypy --no-error-summary
	@$(PYTHON) -m mypy --no-error-summary --python-version=3.10 files/hostkit/hostkit

# Where vulnerabilities are asked for: pypi or osv.
SERVICE ?= pypi
audit: venv  ## is a vulnerability known of anything that is pinned? [SERVICE=osv]
	@PYTHONPATH=files/hostkit $(PYTHON) -m maintenance.audit --service '$(SERVICE)'

locks: venv  ## resolve the hash-pinned requirements and files/locks again
	@PATH="$(CURDIR)/.venv/bin:$$PATH" && requirements/compile.sh && files/locks/compile.sh

# The newest version of vLLM that is locked.
V ?= $(shell ls files/locks/vllm-*-cuda.wheel.txt | sed 's/.*vllm-\(.*\)-cuda.*/\1/' | sort -V | tail -1)

pin-patch: venv  ## URL=https://…/commit/<40 digits>.patch: fetch, show, try and pin a patch
	@PYTHONPATH=files/hostkit $(PYTHON) -m maintenance.pin_patch '$(URL)' '$(V)' \
	    $(if $(SOURCE),--source '$(SOURCE)') $(if $(FILE),--file '$(FILE)')

new-version: venv  ## V=0.32.0: try the series on another version of vLLM and lock it
	@PATH="$(CURDIR)/.venv/bin:$$PATH" PYTHONPATH=files/hostkit \
	    $(PYTHON) -m maintenance.new_version '$(V)'

venv:  ## .venv with pyinfra and the test tools
	@requirements/venv.sh

clean:  ## remove this folder's rehearsal hosts, .venv and caches
	@if [ -d .rehearsal ]; then requirements/venv.sh && $(PYTHON) -m tests.rehearsal down --all; fi
	@rm -rf --one-file-system .rehearsal .venv .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find . -name .git -prune -o -name __pycache__ -prune -exec rm -rf {} +
	@rm -f pyinfra-debug.log
