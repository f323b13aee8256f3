# Everything starts here: each target makes the virtual environment it needs, then runs one command.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
TORCH := torch==2.13.0
LOCKED := --quiet --upgrade --generate-hashes --strip-extras --no-header --no-annotate --no-emit-index-url \
	--no-emit-trusted-host --no-emit-find-links
LOCK := $(BIN)/python -m piptools compile $(LOCKED) --unsafe-package torch --extra postgres --extra otel
# Four processes for two cores: tests wait nearly half of their time. One that has nothing left takes half of what another
# still has. PYTEST_ARGS="-n 0" runs in one.
PARALLEL := -n 4 --dist worksteal
SBOM := sbom
CYCLONEDX := $(BIN)/python -m cyclonedx_py requirements --pyproject pyproject.toml --short-PURLs --output-reproducible --of JSON

# Tests start hundreds of processes: each of them would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo check test test-long test-simulations test-vllm test-models test-containers fuzz soak rehearsal bench bench-gateway bench-reliability bench-live bench-operations bench-harnesses lock sbom docs reference venv clean help

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

demo: .venv/.demo  ## the whole system on a simulated model (KEEP=1 leaves it running, VERBOSE=1 prints every number)
	$(BIN)/biasgate demo $(if $(KEEP),--keep) $(if $(VERBOSE),--verbose)

check: .venv/.dev  ## lint, format, types, direction of imports and circles of them, limits of size and language
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/import_circles.py biasgate gateway auditors benchmarks tests/support tools
	$(BIN)/python .ci/house.py

test: .venv/.dev  ## every area, without GPU, network and real vLLM: some twelve minutes on two cores (PYTEST_ARGS="-n 0 -k relay")
	$(BIN)/python -m pytest $(PARALLEL) --ignore=tests/vllm --ignore=tests/models -m "not long and not simulation and not network and not gpu and not vllm and not models" $(PYTEST_ARGS)

test-long: .venv/.dev  ## kills, drains, upgrades, trainings and live alarms, which `make test` leaves out: a quarter of an hour
	$(BIN)/python -m pytest $(PARALLEL) --ignore=tests/vllm --ignore=tests/models -m "long and not simulation and not network and not gpu and not vllm and not models" $(PYTEST_ARGS)

test-simulations: .venv/.dev  ## every coverage simulation in full, of which the two above repeat a part: some twenty minutes
	$(BIN)/python -m pytest $(PARALLEL) --ignore=tests/vllm --ignore=tests/models -m "simulation and not network and not gpu and not vllm and not models" $(PYTEST_ARGS)

test-vllm: .venv/.dev  ## tests against a real vLLM on the CPU
	env=$$(.ci/vllm-env) && BIASGATE_VLLM_ENV=$$env $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m vllm tests/vllm $(PYTEST_ARGS)

test-models: .venv/.dev  ## tests against small open models, downloaded once (590 MB), served by llama.cpp: five minutes
	.ci/real-models >/dev/null
	$(BIN)/python -m pytest -s -m models tests/models $(PYTEST_ARGS)

test-containers: .venv/.dev  ## both images built and run by podman: Compose, an upgrade under load, the chart's pods (15 minutes; CONTAINER_ARGS="--only kube")
	$(BIN)/python -m tools.containers $(CONTAINER_ARGS)

fuzz: .venv/.fuzz  ## hostile bytes against every parser for FUZZ_SECONDS (120) in all, figures at the end
	$(BIN)/python -m tools.fuzz

soak: .venv/.dev  ## mixed traffic with faults for SOAK_SECONDS (1200) on SOAK_UPSTREAM (simulated, vllm, both), then exact accounts
	$(BIN)/python -m tools.soak

rehearsal: .venv/.dev  ## 3 gateways, 4 auditors, one PostgreSQL in network namespaces: kills, cuts, an upgrade (REHEARSAL_ARGS="--old CHECKOUT")
	$(BIN)/python -m tools.rehearsal $(REHEARSAL_ARGS)
	$(BIN)/python -m tools.rehearsal.scaling

bench: .venv/.dev  ## speed: beside other gateways (BENCH_ARGS=--quick for a minute's run), of the suites; run lengths of the drift alarm
	$(BIN)/python -m tools.bench $(BENCH_ARGS)
	$(BIN)/python -m tools.bench.suites
	$(BIN)/python -m tools.bench.drift

bench-gateway: .venv/.dev  ## what the gateway costs beside its peers, against its aims (BENCH_ARGS=--quick for three minutes)
	$(BIN)/python -m tools.bench.gateway $(BENCH_ARGS)

bench-reliability: .venv/.dev  ## how soon aborts arrive, and the pool under stress: a quarter of an hour
	$(BIN)/python -m tools.bench.ends
	$(BIN)/python -m tools.bench.pool

bench-live: .venv/.dev  ## live latency on a real vLLM (CPU) with auditors off, on, and a suite run: 15 minutes (BENCH_ARGS=--quick for four)
	env=$$(.ci/vllm-env) && BIASGATE_VLLM_ENV=$$env $(BIN)/python -m tools.bench.live $(BENCH_ARGS)

bench-operations: .venv/.dev  ## reloads, stops, killed workers, traces, the auditor's memory: about ten minutes
	$(BIN)/python -m tools.bench.operations
	$(BIN)/python -m tools.bench.auditor_memory

bench-harnesses: .venv/.dev  ## suite runs beside lm-evaluation-harness, Inspect and vllm bench, on a real vLLM (CPU): a quarter of an hour
	env=$$(.ci/vllm-env) && BIASGATE_VLLM_ENV=$$env $(BIN)/python -m tools.bench.harnesses $(BENCH_ARGS)

lock: .venv/.dev  ## requirements*.lock and the tools of a release anew: newest versions that fit, with hashes (minutes)
	$(LOCK) --output-file requirements.lock pyproject.toml
	echo "$(TORCH)" >.venv/torch.txt
	$(LOCK) --extra auditor --extra embedder --constraint requirements.lock --constraint .venv/torch.txt --output-file requirements-auditor.lock pyproject.toml
	$(BIN)/python -m piptools compile $(LOCKED) --allow-unsafe --output-file .github/release.lock .github/release.in
	sed -i '/^#/d;/^$$/d' requirements.lock requirements-auditor.lock .github/release.lock

sbom: .venv/.dev  ## what production installs, as CycloneDX JSON in sbom/
	mkdir -p $(SBOM)
	$(CYCLONEDX) --output-file $(SBOM)/gateway.json requirements.lock
	{ cat requirements-auditor.lock; echo "$(TORCH)"; } | $(CYCLONEDX) --output-file $(SBOM)/auditor.json -

docs: .venv/.dev  ## the manual as a site, in site/VERSION (DOCS_ARGS="--version 0.2")
	$(BIN)/python -m tools.site $(DOCS_ARGS)

reference: .venv/.dev  ## the listings in docs/ of metrics, keys, routes and commands, written from the code
	$(BIN)/python -m tools.reference

venv: .venv/.dev  ## the development environment

.venv/.python:
	@$(PYTHON) -c 'import sys; sys.exit("biasgate needs Python 3.11 or newer, this is " + sys.version.split()[0] + ": set PYTHON=") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv
	@touch $@

# torch comes first and alone: asked for together with the rest, an index may answer with gigabytes of CUDA.
.venv/.demo: .venv/.python pyproject.toml
	$(INSTALL) "$(TORCH)"
	$(INSTALL) -e ".[auditor,embedder]" "openai>=2"
	@touch $@

.venv/.dev: .venv/.demo
	$(INSTALL) -e ".[auditor,embedder,postgres,dev]"
	@touch $@

.venv/.fuzz: .venv/.dev
	$(INSTALL) -e ".[fuzz]" || echo "atheris has no wheel for this Python: make fuzz will mutate without coverage"
	@touch $@

clean:  ## removes what a build or a test run left, and the environment
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist *.egg-info bench-out demo-out sbom site
