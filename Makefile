# What a person runs by hand; `make` alone lists it. Each target is one or two commands that also run without make.
# Needs make and Python 3.11 or newer. Everything else comes from PyPI into $(VENV), pinned by hash.

VENV ?= .venv
BIN := $(VENV)/bin
SEEDS ?= 0:5000

.DEFAULT_GOAL := help
.PHONY: help demo up down env quick test simulate check format bench docs lock clean

help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  demo  JOBSET=\"a.yaml dir/\"  the manifests that run (default: two v6e slices)"
	@echo "        REPORT=run.html       the board with the run inside, one file that loads nothing"
	@echo "        SPEED=40              virtual seconds per real second; 1 is real time. Of up too, as the next two"
	@echo "        FAULTS=faults.yaml    faults and capacity of the fake GKE (standins/google/gke/README.md)"
	@echo "        CLUSTER=real          on a real control plane (docs/local-stack.md)"
	@echo "  test  TIER=cluster          another tier of the tests (CONTRIBUTING.md)"
	@echo "  simulate SEEDS=17           one scenario, line by line (docs/develop/simulator.md)"
	@echo "  ARGS=\"…\"                    more options of the command; ARGS=--help lists them"

STACK = $(if $(SPEED),--speed=$(SPEED)) $(if $(FAULTS),--faults=$(FAULTS)) $(if $(CLUSTER),--cluster=$(CLUSTER))

demo: $(VENV)/.installed ## Run a JobSet, or your manifests, on a local cloud and follow what the product says
	@$(BIN)/python -m demo run $(JOBSET) $(STACK) $(if $(REPORT),--report=$(REPORT)) $(ARGS)

up: $(VENV)/.installed ## Start the local cloud and keep it, for kubectl and gcloud
	@$(BIN)/python -m demo up $(STACK) $(ARGS)

down: $(VENV)/.installed ## End the local cloud
	@$(BIN)/python -m demo down

env: $(VENV)/.installed ## Print the variables that point kubectl, gcloud and tpu-provisioner at it
	@$(BIN)/python -m demo env

LINT = $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && PYTHONPATH=. $(BIN)/lint-imports && \
	$(BIN)/shellcheck --external-sources infra/build/*.sh infra/bootstrap.sh .ci/run && \
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.cloudbuild cloudbuild.*.yaml

quick: $(VENV)/.installed ## Check style, types and imports, and test the rules: half a minute
	@$(LINT)
	@$(BIN)/python -m pytest -q --no-header -n 2 tests/rules tests/engine

test: $(VENV)/.installed ## Run every test that needs nothing but PyPI, or one TIER
	@$(BIN)/python -m tests.run $(if $(TIER),--tier=$(TIER)) $(ARGS)

simulate: $(VENV)/.installed ## Run thousands of scenarios of faults in virtual time
	@$(BIN)/python -m tests.simulation $(SEEDS) $(ARGS)

check: $(VENV)/.installed ## Check style, types and imports, and run every tier that this machine can
	@$(LINT)
	@$(BIN)/python -m tests.run --all

format: $(VENV)/.installed ## Bring the code into shape
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(VENV)/.installed ## Measure against the budgets
	@$(BIN)/python -m benchmarks $(ARGS)

docs: $(VENV)/.installed ## Write the site of the documentation to build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "The site is in build/site: begin with build/site/index.html"

lock: $(VENV)/.installed ## Pin all dependencies again, within requirements/*.in
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version=3.11 \
		--custom-compile-command="make lock" requirements/development.in --output-file=requirements/development.txt
	@$(BIN)/python requirements/lock.py requirements/functions.in requirements.txt
	@$(BIN)/python requirements/lock.py requirements/exporter.in exporter/requirements.txt

clean: ## Remove the virtual environment, caches and the local cloud's files
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m demo down >/dev/null 2>&1 || true; fi
	@rm -rf $(VENV) .local .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@for python in $(PYTHON) python3.13 python3.12 python3.11 python3; do \
		if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			exec $$python -m venv $(VENV); \
		fi; \
	done; \
	echo "error: no Python 3.11 or newer. Install one, or name it: make PYTHON=/path/to/python3 demo" >&2; exit 1

# The stamp says that this lock was installed: a second call does nothing. uv comes by its hash, too.
$(VENV)/.installed: requirements/development.txt | $(BIN)/python
	@echo "Installing from PyPI into $(VENV) (half a minute, once)"
	@awk '/^uv==/ {uv = 1} uv && /# via/ {exit} uv' $< >$(VENV)/uv.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r $(VENV)/uv.txt
	@$(BIN)/uv pip install --quiet --native-tls --python $(BIN)/python --require-hashes -r $< || \
		{ echo "uv cannot reach PyPI, so pip installs, which reads pip.conf (some minutes)"; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<; }
	@touch $@
