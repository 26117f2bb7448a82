# Every target sets up what it needs by itself: a .venv, and with apt what a test needs besides.
PYTHON := .venv/bin/python
# uv otherwise trusts its own certificates only, pip and apt the machine's.
export UV_SYSTEM_CERTS ?= 1

.DEFAULT_GOAL := help
.PHONY: help venv rehearse test lint locks campaign clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*##/  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

rehearse: venv  ## deploy to a throwaway systemd host and ask the served model a question
	@$(PYTHON) -m tests.rehearsal.rehearse

test: lint  ## everything that needs no GPU: lint, unit tests, rehearsal
	@$(PYTHON) -m pytest --numprocesses=2 --dist=loadgroup

campaign: venv  ## every case of what `make test` tries once; hours
	@$(PYTHON) -m pytest -m campaign

lint: venv  ## ruff and mypy
	@$(PYTHON) -m ruff check --quiet .
	@$(PYTHON) -m ruff format --check --quiet .
	@$(PYTHON) -m mypy --no-error-summary

locks: venv  ## resolve the hash-pinned requirements and files/locks again
	@PATH="$(CURDIR)/.venv/bin:$$PATH" && requirements/compile.sh && files/locks/compile.sh

venv:  ## .venv with pyinfra and the test tools
	@requirements/venv.sh

clean:  ## remove this folder's rehearsal hosts, .venv and caches
	@if [ -d .rehearsal ]; then requirements/venv.sh && $(PYTHON) -m tests.rehearsal down --all; fi
	@rm -rf --one-file-system .rehearsal .venv .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find . -name .git -prune -o -name __pycache__ -prune -exec rm -rf {} +
	@rm -f pyinfra-debug.log
