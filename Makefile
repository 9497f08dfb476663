# Everything a person runs by hand. `make` alone lists the targets.
# Needs make and Python 3.11 or newer; everything else comes from PyPI into $(VENV), pinned by hash.

VENV ?= .venv
BIN := $(VENV)/bin
JOBSET ?=
SPEED ?=
REPORT ?=
BOARD ?=
TIMEOUT ?=
FAULTS ?=
CLUSTER ?=
NICE ?=
INPUTS ?=
BORDER ?=
SEED ?=
SEEDS ?= 0:5000
PROGRAM ?=
PROJECT ?=
ASK ?=

# A variable that is misspelt on the command line would have no effect, silently.
VALID := VENV JOBSET SPEED REPORT BOARD TIMEOUT FAULTS CLUSTER NICE INPUTS BORDER SEED SEEDS PROGRAM PROJECT ASK \
	PYTHON TPU_PROVISIONER_CORPUS
GIVEN := $(foreach each,$(.VARIABLES),$(if $(findstring command line,$(origin $(each))),$(each)))
WRONG := $(if $(filter 0,$(MAKELEVEL)),$(filter-out $(VALID),$(GIVEN)))
$(if $(WRONG),$(error $(WRONG): is not a variable of this Makefile; valid: $(VALID)))

# Each one's tests need a tool of their own: tests/run.py says which one, and how to get it.
TIERS := tools terraform image browser corpus recordings docs cluster

.DEFAULT_GOAL := help
.PHONY: help demo demo-scarce up down status board env quick simulate test fuzz $(TIERS:%=test-%) test-real module-tables test-module-tables controlplane controllers lint check format bench bench-field docs docs-serve requirements clean

STACK_OPTIONS = $(if $(SPEED),--speed=$(SPEED)) $(if $(FAULTS),--faults=$(FAULTS)) $(if $(CLUSTER),--cluster=$(CLUSTER))

help: ## List what people call; CONTRIBUTING.md has all targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  JOBSET=\"a.yaml dir/ *.yaml\"  what make demo runs (default: two v6e slices)"
	@echo "  SPEED=30                     virtual seconds per real second; 1 is real time"
	@echo "  REPORT=run.html              write the board with the run inside, one file that loads nothing"
	@echo "  BOARD=1                      make demo serves the board of the run (docs/board.md)"
	@echo "  TIMEOUT=120                  give up after this many real seconds"
	@echo "  FAULTS=faults.yaml           faults of the fake GKE (standins/fakegke/README.md)"
	@echo "  CLUSTER=real                 on a real control plane (make controlplane first)"
	@echo "  INPUTS=20000                 how many inputs make fuzz passes; BORDER and SEED narrow it"
	@echo "  SEEDS=0:5000                 the scenarios of make simulate; one seed is told line by line"
	@echo "  PROGRAM=path/to/manager      the Go TPU Provisioner of make bench-field; without it only ours runs"
	@echo "  PROJECT=my-project           where make test-real asks Google what the code assumes (docs/proof.md)"
	@echo "  NICE=19                      make controlplane and controllers step back behind others"

demo: $(VENV)/.demo ## Run a two-slice JobSet, or your manifests, on a local cloud and follow what the product says
	@$(BIN)/python -m demo.loop $(JOBSET) $(STACK_OPTIONS) $(if $(BOARD),--board) \
		$(if $(REPORT),--report=$(REPORT)) $(if $(TIMEOUT),--timeout=$(TIMEOUT))

demo-scarce: $(VENV)/.demo ## Run three JobSets where capacity is too small, is taken back and comes later (docs/capacity.md)
	@$(BIN)/python -m demo.loop examples/scarce/three-jobsets.yaml --faults=examples/scarce/capacity.yaml \
		--speed=$(or $(SPEED),30) --idle-seconds-max=60 \
		--timeout=$(or $(TIMEOUT),300) $(if $(CLUSTER),--cluster=$(CLUSTER)) \
		$(if $(REPORT),--report=$(REPORT))

up: $(VENV)/.demo ## Start the local cloud and keep it, for kubectl and gcloud
	@$(BIN)/python -m demo.stack up $(STACK_OPTIONS)

down: $(VENV)/.demo ## End the local cloud
	@$(BIN)/python -m demo.stack down

status: $(VENV)/.demo ## Show the processes of the local cloud
	@$(BIN)/python -m demo.stack status

board: $(VENV)/.demo ## Serve a live page about the local cloud, with buttons for faults and examples
	@$(BIN)/python -m demo.board

env: $(VENV)/.demo ## Print the variables that point kubectl, gcloud and tpu-provisioner at the local cloud
	@$(BIN)/python -m demo.stack env

quick: lint ## Lint, then run the tests of rules and engine: an answer in half a minute
	@$(BIN)/python -m pytest -q --no-header tests/rules tests/engine tests/unit

simulate: $(VENV)/.development ## Run thousands of scenarios of faults in virtual time (docs/develop/simulator.md)
	@$(BIN)/python -m tests.simulation $(SEEDS)

test: $(VENV)/.development ## Run every test that needs nothing but PyPI
	@$(BIN)/python -m tests.run

fuzz: $(VENV)/.development # Pass spoilt inputs over every border (INPUTS=1000000 takes about an hour)
	@$(BIN)/python -m tests.fuzz $(if $(INPUTS),--inputs=$(INPUTS)) $(if $(BORDER),--border=$(BORDER)) \
		$(if $(SEED),--seed=$(SEED))

$(TIERS:%=test-%): test-%: $(VENV)/.development
	@$(BIN)/python -m tests.run --$*

test-real: $(VENV)/.development # Ask Google in a test cluster what the code assumes (docs/proof.md)
	@$(BIN)/python -m pytest tests/real -v --project=$(PROJECT) $(if $(CLUSTER),--cluster=$(CLUSTER)) $(ASK)

test-browser: $(VENV)/.browser
test-docs: $(VENV)/.docs

module-tables: $(VENV)/terraform-docs # Write the tables into the pages of the Terraform modules (needs Go)
	@$< --config=infra/terraform/terraform-docs.yml infra/terraform

test-module-tables: $(VENV)/terraform-docs # Check that these tables are those of the modules
	@$< --config=infra/terraform/terraform-docs.yml --output-check infra/terraform || { echo "error: run make module-tables" >&2; exit 1; }

controlplane: $(VENV)/.demo # Build a real Kubernetes control plane once (needs Go; 12 minutes and more)
	@$(BIN)/python -m standins.controlplane build $(if $(NICE),--nice=$(NICE))

controllers: $(VENV)/.demo # Build KubeRay, LeaderWorkerSet, Kueue and the cluster autoscaler for it (minutes each, once)
	@$(BIN)/python -m standins.controlplane build --with=all $(if $(NICE),--nice=$(NICE))

lint: $(VENV)/.development ## Check style, types and the import rules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@PYTHONPATH=. $(BIN)/lint-imports

check: lint ## Lint, then run every test that this machine can
	@$(BIN)/python -m tests.run --all

format: $(VENV)/.development ## Bring the code into shape
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(VENV)/.development ## Measure against the budgets
	@$(BIN)/python -m benchmarks

bench-field: $(VENV)/.development # Same work for ours and for the Go TPU Provisioner, in real time (make controlplane first; hours)
	@$(BIN)/python -m benchmarks.field run $(if $(PROGRAM),--program=$(PROGRAM),--side=ours)
	@$(BIN)/python -m benchmarks.field fan-out

docs: $(VENV)/.docs ## Write the site of the documentation to build/site
	@NO_MKDOCS_2_WARNING=1 $(VENV)/docs/bin/mkdocs build --quiet
	@echo "The site is in build/site: begin with build/site/index.html"

docs-serve: $(VENV)/.docs # Show the site on http://127.0.0.1:8000 while you write
	@NO_MKDOCS_2_WARNING=1 $(VENV)/docs/bin/mkdocs serve

COMPILE = $(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version=3.11 \
	--custom-compile-command="make requirements"

requirements: $(VENV)/.development # Pin all dependencies anew, within requirements/*.in
	@$(COMPILE) requirements/development.in --output-file=requirements/development.txt
	@$(COMPILE) requirements/functions.in --constraints=requirements/development.txt --output-file=requirements.txt
	@$(COMPILE) requirements/exporter.in --constraints=requirements/development.txt \
		--output-file=exporter/requirements.txt
	@$(COMPILE) requirements/cli.in --constraints=requirements/development.txt --output-file=cli/requirements.txt
	@$(COMPILE) requirements/browser.in --constraints=requirements/development.txt \
		--output-file=requirements/browser.txt
	@$(COMPILE) requirements/docs.in --output-file=requirements/docs.txt
	@$(COMPILE) requirements/demo.in --constraints=requirements/development.txt --output-file=demo/requirements.txt

clean: ## Remove the virtual environment, caches and the local cloud's files
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m demo.stack down >/dev/null 2>&1 || true; fi
	@rm -rf $(VENV) .local .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps say what was installed from which lock; a second call finds them fresh and does nothing.
INSTALL_OPTIONS = --quiet --disable-pip-version-check --no-input --require-hashes
INSTALL = $(BIN)/python -m pip install $(INSTALL_OPTIONS)

$(BIN)/python:
	@set -e; for python in $(PYTHON) python3.13 python3.12 python3.11 python3; do \
		if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			echo "Making a virtual environment in $(VENV) with $$($$python --version)"; \
			$$python -m venv $(VENV); exit 0; \
		fi; \
	done; \
	echo "error: no Python 3.11 or newer found (tried python3.13, python3.12, python3.11, python3)." >&2; \
	echo "Install one, or name it: make PYTHON=/path/to/python3 demo" >&2; exit 1

$(VENV)/.demo: demo/requirements.txt | $(BIN)/python
	@if [ ! -f $(VENV)/.development ]; then \
		echo "Installing the demo's dependencies from PyPI (about 40 s, once)"; \
		$(INSTALL) -r demo/requirements.txt; \
	fi
	@touch $@

$(VENV)/.development: requirements/development.txt | $(BIN)/python
	@echo "Installing the development dependencies from PyPI (about a minute, once)"
	@$(INSTALL) -r requirements/development.txt
	@touch $@

$(VENV)/.browser: requirements/browser.txt | $(VENV)/.development
	@echo "Installing the driver of the browser tests from PyPI (about a minute, once)"
	@$(INSTALL) -r requirements/browser.txt
	@touch $@

# MkDocs has an environment of its own, because nothing of the project imports it.
$(VENV)/.docs: requirements/docs.txt | $(BIN)/python
	@echo "Installing MkDocs from PyPI into $(VENV)/docs (about half a minute, once)"
	@$(BIN)/python -m venv $(VENV)/docs
	@$(VENV)/docs/bin/python -m pip install $(INSTALL_OPTIONS) -r requirements/docs.txt
	@touch $@

$(VENV)/terraform-docs: requirements/terraform-docs/go.sum | $(BIN)/python
	@echo "Building terraform-docs from Go's module proxy (about half a minute, once)"
	@CGO_ENABLED=0 GOFLAGS= GOWORK=off go build -C $(<D) -o $(abspath $@) github.com/terraform-docs/terraform-docs
