# Everything runs in .venv; nothing is installed outside the project.
# `make run` installs what running needs, `make run LIGHT=1` without sentence-transformers and torch, which the default
# embedding model does not need; `make check` adds linters, tests, a browser and DataHub's SDK.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check
TORCH := torch==2.13.0
# PyTorch's own index has a build without CUDA; the ordinary one carries gigabytes of it.
TORCH_CPU := https://download.pytorch.org/whl/cpu
NEEDS := $(if $(LIGHT),light,full)

.PHONY: run install browser test test-inside test-outside check lint types format lock clean

run: install
	@$(BIN)/python manage.py up

install: $(VENV)/$(NEEDS)

$(VENV)/python: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Commonplace needs Python 3.11 or later; this is $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "Python's venv module is missing: install it (on Debian and Ubuntu: apt install python3-venv) and run make again."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV), some minutes the first time"
	@$(PIP) --no-deps --editable .
	@touch $@

$(VENV)/torch: $(VENV)/python
	@$(PIP) --retries 0 --timeout 15 --no-deps --index-url $(TORCH_CPU) $(TORCH) 2>/dev/null || $(PIP) $(TORCH)
	@touch $@

$(VENV)/light: requirements/light.txt $(VENV)/python
	@$(PIP) --no-deps --require-hashes --requirement $<
	@touch $@

$(VENV)/full: requirements/full.txt $(VENV)/torch
	@$(PIP) --no-deps --require-hashes --requirement $<
	@touch $@

$(VENV)/check: requirements/check.txt $(VENV)/torch
	@$(PIP) --no-deps --require-hashes --requirement $<
	@touch $@

# The tests drive Chromium: the system's own where there is one, otherwise Debian's package, otherwise Playwright's.
browser: $(VENV)/check
	@command -v chromium chromium-browser google-chrome google-chrome-stable >/dev/null \
		|| { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq chromium; } \
		|| $(BIN)/playwright install chromium

check: lint types test

lint: $(VENV)/check
	@$(BIN)/ruff format --check . && $(BIN)/ruff check .
	@$(BIN)/python manage.py makemigrations --check --dry-run

types: $(VENV)/check
	@$(BIN)/mypy .

# Two halves at once, of some nine minutes each on two cores: what is tested in this process, and what is tried from
# outside, in browsers and processes of its own.
test: $(VENV)/check
	@$(MAKE) --no-print-directory --jobs=2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) test-inside test-outside

test-inside: $(VENV)/check
	@$(BIN)/python -m pytest --ignore=tests/e2e

test-outside: $(VENV)/check
	@$(BIN)/python -m pytest tests/e2e

format: $(VENV)/check
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

# Versions and hashes for every platform, and no index address. torch stays outside: its CPU build has other hashes.
LOCK = $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-annotate --custom-compile-command "make lock" \
	$(foreach name,torch triton cuda-bindings cuda-pathfinder cuda-toolkit $(NVIDIA),--no-emit-package $(name))
NVIDIA = $(addprefix nvidia-,cublas cuda-cupti cuda-nvrtc cuda-runtime cudnn-cu13 cufft cufile curand cusolver cusparse \
	cusparselt-cu13 nccl-cu13 nvjitlink nvshmem-cu13 nvtx)

lock: $(VENV)/check
	@$(LOCK) --extra dev --output-file requirements/check.txt
	@$(LOCK) --constraint requirements/check.txt --output-file requirements/full.txt
	@$(LOCK) --constraint requirements/check.txt --override requirements/light.overrides --output-file requirements/light.txt

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
