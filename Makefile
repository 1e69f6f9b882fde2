# Everything sets itself up: a virtual environment in the checkout, from pyproject.toml.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
EXTRA  ?= gcp
IMAGE  ?= capacity-sidecar

.PHONY: help demo test lint unit compatible test-packaging test-real bench accuracy \
	image deb docs lock prior clean

help:  ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(VENV)/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	    || { echo "Python 3.10 or newer is needed; make PYTHON=python3.11 …"; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	    || { echo "Python's venv module is needed (Debian: apt install python3-venv)"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(VENV)/.ready  ## a simulated worker under load, the sidecar beside it
	@$(BIN)/capacity-sidecar demo

test: lint unit  ## everything that needs no GPU and no real engine

lint: $(VENV)/.ready  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

unit: $(VENV)/.ready  ## the tests, with branch coverage
	$(BIN)/pytest -m 'not real and not packaging' --cov --cov-report=term

compatible: $(VENV)/.ready  ## the quick tests that start no process, under another PYTHON
	$(BIN)/pytest -q -m 'not process and not real and not slow and not packaging' -p no:cacheprovider

test-packaging: $(VENV)/.ready  ## the image, the .deb and the service as they run; as root
	$(BIN)/pytest tests/packaging -m packaging --no-header -v

test-real: $(VENV)/.ready  ## against a real vLLM and a real Dynamo, on the CPU
	$(BIN)/pytest tests/real -m real --no-header -v

bench: $(VENV)/.ready  ## ratios against named peers
	@$(BIN)/python -m tests.bench

accuracy: $(VENV)/.ready  ## how far estimates are from the truth, as a table
	@$(BIN)/python -m tests.accuracy

image:  ## the container image, with docker, podman or buildah; EXTRA=base leaves Google out
	@if docker info >/dev/null 2>&1; then build="docker build"; \
	elif command -v podman >/dev/null; then build="podman build --format docker"; \
	else build="buildah build --format docker"; fi; \
	$$build --build-arg EXTRA=$(EXTRA) --build-arg REVISION=$$(git rev-parse HEAD) \
	    --build-arg CREATED=$$(date -u +%Y-%m-%dT%H:%M:%SZ) $(BUILD) --tag $(IMAGE) .

deb: $(VENV)/.ready  ## the Debian package, in dist/; ARCH=amd64 or arm64
	@PATH="$(abspath $(BIN)):$$PATH" packaging/debian/build.sh $(ARCH)

docs: $(VENV)/.ready  ## write what is made of the settings and of the rules
	@$(BIN)/python -m tests.readme
	@$(BIN)/python -m tests.packaging.prometheusrule

lock: $(VENV)/.ready  ## pin what the image and the .deb are made of
	PATH="$(abspath $(BIN)):$$PATH" packaging/requirements/lock.sh

prior: $(VENV)/.ready  ## compute the estimator's prior from the published curves
	@$(BIN)/python -m tests.accuracy.prior

clean:  ## remove what make made
	rm -rf $(VENV) .venv-3.* .real .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage build dist
