# Everything runs in .venv; nothing is installed outside the project.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH := torch==2.13.0
# PyTorch's own index has a build without CUDA; the ordinary one carries gigabytes of it.
TORCH_CPU := https://download.pytorch.org/whl/cpu

.PHONY: run install browser test check lint types format clean

run: install
	@$(BIN)/python manage.py up

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Commonplace needs Python 3.11 or later; this is $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "Python's venv module is missing: install it (on Debian and Ubuntu: apt install python3-venv) and run make again."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV), some minutes the first time"
	@$(BIN)/pip install --quiet --disable-pip-version-check --retries 0 --timeout 15 --index-url $(TORCH_CPU) $(TORCH) 2>/dev/null \
		|| $(BIN)/pip install --quiet --disable-pip-version-check $(TORCH)
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

# The tests drive Chromium: the system's own where there is one, otherwise Debian's package, otherwise Playwright's.
browser: install
	@command -v chromium chromium-browser google-chrome google-chrome-stable >/dev/null \
		|| { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq chromium; } \
		|| $(BIN)/playwright install chromium

check: lint types test

lint: install
	@$(BIN)/ruff format --check . && $(BIN)/ruff check .
	@$(BIN)/python manage.py makemigrations --check --dry-run

types: install
	@$(BIN)/mypy .

test: install
	@$(BIN)/python -m pytest

format: install
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
