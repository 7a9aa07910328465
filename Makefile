# Everything runs in a virtual environment of the checkout's own; `make` sets it up when it is missing or when what it holds has changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SEEDS ?= 2000

.PHONY: help demo up api-tour test test-real infra-test containers-test lambdas packaged synth kill-test simulate bench check format model clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

$(VENV)/.infra: $(VENV)/.ready
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,infra]'
	@touch $@

demo: $(VENV)/.ready ## Run 60 jobs on the embedded fleet, kill a dispatcher meanwhile, check every figure
	$(BIN)/gpufleet demo

up: $(VENV)/.ready ## Start the embedded fleet until Ctrl-C
	$(BIN)/gpufleet up

api-tour: $(VENV)/.ready ## Every operation of the GCO door by curl on a fleet of its own, each answer checked
	$(BIN)/python -m tests.e2e.tour

test: $(VENV)/.ready ## The tests that need nothing but Python
	$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder

test-real: $(VENV)/.ready ## The tests against DynamoDB Local (npm, Java), injected AWS faults and Prometheus (Debian's)
	tests/real/run.sh $(BIN)/python

infra-test: $(VENV)/.infra ## The stacks: synthesized, checked, least privilege, deployed to the emulator with jobs run on them
	$(BIN)/python -m pytest -m infra tests/infra

containers-test: $(VENV)/.infra ## The image and docker-compose.yml in containers, on Podman (Debian's packages, as root)
	tests/real/containers.sh $(BIN)/python

lambdas: $(VENV)/.ready ## Build one package per Lambda function under build/lambdas; tells sizes and cold import times
	$(BIN)/python -m infra.lambdas

packaged: # what synth would miss after minutes of installing; it needs nothing but Python
	@$(PYTHON) -m infra.cdk.packages

synth: packaged $(VENV)/.infra ## Synthesize the stacks into build/cdk.out, after make lambdas; needs no account
	$(BIN)/python -m infra.cdk

kill-test: $(VENV)/.ready ## 500 jobs, 4 dispatchers, one killed every second; 500 deliveries, their worker killed again and again
	$(BIN)/python -m pytest -m slow tests/e2e/test_kill.py tests/e2e/test_webhook_kill.py tests/integration/webhooks

simulate: $(VENV)/.ready ## The deterministic simulation (SEEDS=2000)
	$(BIN)/python -m tests.simulation --seeds $(SEEDS)

bench: $(VENV)/.ready ## Calls and ratios, each beside its bound; writes bench/results.json
	$(BIN)/python -m bench

check: $(VENV)/.ready ## Lint, format, types, import rules, dead code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vulture

format: $(VENV)/.ready ## Format and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

model: ## Check the model of the claim protocol (needs spin and a C compiler)
	docs/model/check.sh

clean: ## Remove the environment and what was built
	rm -rf $(VENV) .gpufleet build dist
