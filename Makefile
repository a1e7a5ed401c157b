# Steelyard. `make` lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
BIN := .venv/bin
CLUSTER := $(BIN)/steelyard-loadtest cluster

# Whether hardly anybody wants a CPU as `make` begins: more tests that wait for daemons then run at once.
ifndef QUIET
QUIET := $(shell awk '{ split($$4, running, "/"); print running[1] < 6 ? "yes" : "no" }' /proc/loadavg)
endif
export QUIET

.PHONY: help setup setup-tests up down status demo test spec unit integration integration-short integration-long e2e check lint types arch page lock churn truth bench-agent bench-dataplane bench-cycle bench-law report sim chaos soak fuzz audit law-cases plot-law release images clean compose-up compose-down compose-test kubernetes-test

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:  ## install what is missing (Debian packages, .venv)
	@scripts/setup

setup-tests:  ## the same, and what the tests and linters need
	@scripts/setup --with-tests

up: setup  ## the whole cluster on this machine: http://localhost:8080
	@$(CLUSTER) up

down:  ## stop all of it
	@if [ -x $(BIN)/steelyard-loadtest ]; then $(CLUSTER) down; else echo "steelyard: was not running"; fi

status:  ## is every part of the cluster well?
	@$(CLUSTER) status

demo:  ## load the running cluster for two minutes, burn a CPU, plot what happened
	@scripts/setup --with-load
	@$(BIN)/steelyard-loadtest demo

test: setup-tests spec unit integration e2e  ## every test: specs and units first, then real daemons, then the whole cluster

spec:  ## Lua specs on plain LuaJIT
	busted -f openresty/.busted

unit:  ## Python tests that need no daemon
	$(BIN)/pytest -q -n auto -m "not integration and not e2e"

integration:  ## real memcached, redis and nginx on free ports
	@$(MAKE) --no-print-directory --jobs $(if $(filter yes,$(QUIET)),2,1) integration-short integration-long
	$(BIN)/pytest -q --reruns 1 -n 2 --dist loadfile -m "integration and alone"

integration-short:
	$(BIN)/pytest -q --reruns 1 -n $(if $(filter yes,$(QUIET)),6,4) --dist worksteal -m "integration and not long and not alone"

integration-long:
	$(BIN)/pytest -q --reruns 1 -n 3 -m "integration and long"

e2e:  ## the whole cluster: burn a server, its share falls; stop, it returns
	$(BIN)/pytest -q --reruns 1 -n 2 --dist loadfile -m e2e

check: setup-tests  ## what CI runs: linters, types, architecture, tests
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint types arch spec unit
	@$(MAKE) --no-print-directory integration
	@$(MAKE) --no-print-directory e2e

lint:  ## ruff and luacheck
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	luacheck --quiet openresty loadtest/simulator/steelyard_simulator

types:  ## mypy, strict
	$(BIN)/mypy

arch:  ## pure modules stay pure, data flows one way (import-linter)
	$(BIN)/lint-imports

page:  ## build the controller's page again (setup does it too)
	@scripts/page

lock:  ## pin the dependencies again (requirements/*.txt)
	@scripts/lock

# Version 2 where it is here, else docker-compose 1.29; looked up only where it is used.
COMPOSE = $(shell docker compose version >/dev/null 2>&1 && echo docker compose || echo docker-compose)

compose-up:  ## the cluster in containers: http://localhost:8080 (docs/guides/operations.md)
	@deploy/compose/secrets
	@$(COMPOSE) up --detach --build

compose-down:  ## stop it; what Redis and nginx have kept stays (docker compose down --volumes: not)
	@$(COMPOSE) --profile loadtest --profile monitoring down

compose-test: setup-tests  ## the same on a real engine: load, a burner, one part after the other killed, nothing left
	@deploy/compose/test

kubernetes-test: setup-tests  ## against a real Kubernetes API, which the first run builds
	@scripts/kubernetes-clients
	@scripts/kubernetes-api
	$(BIN)/pytest -q --timeout 600 -m kubernetes testing/kubernetes/tests

churn: setup-tests  ## one minute of wrk while servers come, drain, go and change weight every second: 0 failures
	CHURN_SECONDS=60 $(BIN)/pytest -q -s openresty/tests/test_churn.py

BENCH ?=
bench-dataplane:  ## CPU, rate and memory of a proxied request beside nginx, HAProxy, Envoy (45 min; BENCH=--quick: 6)
	@scripts/setup --with-bench
	@$(BIN)/steelyard-loadtest dataplane $(BENCH)

sim:  ## the simulator's quick studies: ns-3, scale, stability, evidence, autoscale, Prequal, zones (10 min)
	@scripts/setup --with-simulator
	@$(BIN)/steelyard-loadtest simulate ns3 --out sim-results/ns3
	@$(BIN)/steelyard-loadtest simulate scale --quick --out sim-results/scale
	@$(BIN)/steelyard-loadtest simulate stability --quick --out sim-results/stability
	@$(BIN)/steelyard-loadtest simulate evidence --quick --out sim-results/evidence
	@$(BIN)/steelyard-loadtest simulate autoscale --quick --out sim-results/autoscale
	@$(BIN)/steelyard-loadtest simulate prequal --quick --out sim-results/prequal
	@$(BIN)/steelyard-loadtest simulate zones --quick --out sim-results/zones

report:  ## the load lab's quick set: every algorithm in seven scenarios, written to docs/research/benchmarks.md (20 min)
	@scripts/setup --with-bench
	@$(BIN)/steelyard-loadtest compare all --quick --again --out loadtest-results/quick --page docs/research/benchmarks.md

chaos: setup-tests  ## one fault at a time under constant load, each with its bound; written to docs/research/resilience.md (15 min, root)
	@$(BIN)/steelyard-loadtest chaos --out chaos-results --page docs/research/resilience.md

soak: setup-tests  ## half an hour of load and churn: does anything grow? written to docs/research/resilience.md (root)
	@$(BIN)/steelyard-loadtest soak --out soak-results --page docs/research/resilience.md

fuzz: setup-tests  ## inputs that nobody would send, at everything that reads; written to docs/research/resilience.md (10 min)
	@$(BIN)/steelyard-loadtest fuzz --out fuzz-results --page docs/research/resilience.md

bench-agent: setup-tests  ## CPU and memory of the agent by scope, beside its targets (1 min)
	@$(BIN)/python agent/benchmarks/bench_agent.py

truth: setup-tests  ## the agent's figures beside work of a known size, in real cgroups and networks (1 min, root)
	$(BIN)/python -m agent.tests.truth --page docs/reference/agent.md

bench-cycle: setup-tests  ## CPU time of a tick with real Memcached and Redis, up to 10,000 servers (1 min)
	@$(BIN)/python controller/benchmarks/bench_cycle.py --redis

bench-law:  ## time of a law's step at 10 to 10,000 peers
	$(BIN)/python controller/benchmarks/bench_law.py

audit: setup-tests  ## ask the databases of known vulnerabilities about every pinned package
	@scripts/audit

law-cases:  ## the default law with long, expensive, open or unseen requests: the table of docs/research/law.md
	@$(BIN)/python -m controller.tests.laws.law_cases

plot-law:  ## the step-response plots of docs/research/law.md
	@scripts/setup --with-load
	$(BIN)/python controller/benchmarks/plot_law.py

release:  ## build all packages into dist/VERSION, then install each in a clean root and run it: VERSION=1.2.0
	@scripts/setup --with-release
	@$(BIN)/python -m release "$(VERSION)"
	@STEELYARD_RELEASE="$(CURDIR)/dist/$(VERSION)" $(BIN)/pytest -q release/installed/tests

images:  ## build all images of the last commit, with labels (docker-bake.hcl, needs buildx): VERSION=1.2.0
	@test -n "$(VERSION)" || { echo "images: give a version: make images VERSION=1.2.0" >&2; exit 2; }
	@VERSION="$(VERSION)" REVISION="$$(git rev-parse HEAD)$$(git diff --quiet HEAD || echo -dirty)" \
	  SOURCE_DATE_EPOCH="$$(git log -1 --format=%ct)" CREATED="$$(TZ=UTC0 git log -1 --date=iso-strict-local --format=%cd)" \
	  docker buildx bake --file docker-bake.hcl $(BAKE)

clean: down  ## also remove the environment and the run folder
	rm -rf .venv .run
