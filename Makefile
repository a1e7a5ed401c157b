# Steelyard. `make` lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
BIN := .venv/bin
CLUSTER := $(BIN)/steelyard-loadtest cluster

# If the CPUs are idle when `make` begins, more tests that wait for daemons run at once.
ifndef QUIET
QUIET := $(shell awk '{ split($$4, running, "/"); print running[1] < 6 ? "yes" : "no" }' /proc/loadavg)
endif
export QUIET

.PHONY: help setup setup-tests up down status demo test spec unit unit-quick unit-controller unit-api unit-cli unit-other unit-slow unit-laws unit-simulator unit-lab integration integration-short integration-nginx integration-programs integration-long e2e check check-quick check-computing check-daemons lint types arch page lock churn truth bench-agent bench-dataplane bench-cycle bench-law report sim chaos soak fuzz audit law-cases law-burns law-rarely-asked plot-law versions findings release images clean compose-up compose-down compose-test kubernetes-test

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:  ## install what is missing (Debian packages, .venv)
	@scripts/setup

setup-tests:  ## install the same, and the tools of tests and linters
	@scripts/setup --with-tests

up: setup  ## start the whole cluster on this machine: http://localhost:8080
	@$(CLUSTER) up

down:  ## stop the cluster
	@if [ -x $(BIN)/steelyard-loadtest ]; then $(CLUSTER) down; else echo "steelyard: was not running"; fi

status:  ## check every part of the cluster
	@if [ -x $(BIN)/steelyard-loadtest ]; then $(CLUSTER) status; else echo "steelyard: not running; start it with: make up"; exit 3; fi

demo:  ## load the running cluster for two minutes, burn a CPU, plot what happened
	@scripts/setup --with-load
	@$(BIN)/steelyard-loadtest demo

test: setup-tests spec unit integration e2e  ## run every test: specs and units, then real daemons, then the whole cluster

spec:  ## run Lua specs on plain LuaJIT
	busted -f openresty/.busted

# Tests of laws, of the load lab and of the chart compute for seconds each: they step laws and simulated servers,
# draw plots, run helm and promtool. In `make check` they only get what tests with daemons leave them. Each part is
# a process: workers of one pytest would each import and collect all tests. unit-other has the tests that no other
# part has.
UNIT := $(BIN)/pytest -q --timeout 600 -m "not integration and not e2e"
API := controller/tests/api
CLI := controller/tests/cli
LAWS := controller/tests/laws
LAB := loadtest/tests loadtest/resilience/tests deploy/tests
SIMULATOR := loadtest/simulator/tests

unit:  ## run Python tests without daemons
	@$(MAKE) --no-print-directory --jobs 3 --output-sync=target unit-quick unit-slow

unit-quick: unit-controller unit-api unit-cli unit-other

unit-controller:
	STEELYARD_TESTS_PORTS=8000-13999 $(UNIT) controller/tests $(patsubst %,--ignore-glob='%/*',$(API) $(CLI) $(LAWS))

unit-api:
	$(UNIT) $(API)

unit-cli:
	STEELYARD_TESTS_PORTS=14000-19999 $(UNIT) $(CLI)

unit-other:
	STEELYARD_TESTS_PORTS=26000-31999 $(UNIT) $(patsubst %,--ignore-glob='%/*',controller/tests $(LAB) $(SIMULATOR))

unit-slow: unit-laws unit-simulator unit-lab

unit-laws:
	nice -n 19 $(UNIT) $(LAWS)

unit-simulator:
	nice -n 19 $(UNIT) $(SIMULATOR)

unit-lab:
	STEELYARD_TESTS_PORTS=5000-7999 nice -n 19 $(UNIT) $(LAB)

# Hypothesis' plugin reads the syntax trees of all imported modules in each worker, for half a second of CPU.
DAEMONS := $(BIN)/pytest -q --reruns 1 -p no:hypothesispytest

integration:  ## run tests with real memcached, redis and nginx on free ports
	@$(MAKE) --no-print-directory --jobs $(if $(filter yes,$(QUIET)),3,1) integration-short integration-long

# Each worker imports and collects all tests of its run, so there are two runs.
SHORT := -n $(if $(filter yes,$(QUIET)),3,4) --dist worksteal -m "integration and not long"

integration-short: integration-nginx integration-programs

integration-nginx:
	$(DAEMONS) $(SHORT) openresty/tests

integration-programs:
	STEELYARD_TESTS_PORTS=26000-31999 $(DAEMONS) $(SHORT) --ignore-glob='openresty/tests/*'

integration-long:
	STEELYARD_TESTS_PORTS=8000-13999 $(DAEMONS) -n 3 -m "integration and long"

# These tests share one cluster, so they run one after the other.
e2e:  ## test the whole cluster: burn a server and its share falls; stop and it returns
	STEELYARD_TESTS_PORTS=14000-19999 $(DAEMONS) -m e2e

# Quick tests come first, and end a run early. Lua specs need no .venv, so they run while it is made. Tests with
# daemons mostly wait: the CPU that they leave is for types and slow tests, which only compute and delay no daemon.
check:  ## run what CI runs: linters, types, architecture, tests
	@scripts/setup --with-tests --packages-only
	@$(MAKE) --no-print-directory --jobs $(if $(filter yes,$(QUIET)),6,3) --output-sync=target check-quick spec
	@$(MAKE) --no-print-directory --jobs $(if $(filter yes,$(QUIET)),6,1) --output-sync=target check-computing check-daemons

check-quick: setup-tests
	@$(MAKE) --no-print-directory unit-quick lint arch

check-computing:
	@nice -n 10 $(MAKE) --no-print-directory types
	@$(MAKE) --no-print-directory unit-slow

check-daemons:
	@$(MAKE) --no-print-directory integration-short integration-long e2e

lint:  ## run ruff, luacheck and the lint of English
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m testing.english --lint
	luacheck --quiet openresty loadtest/simulator/steelyard_simulator

types:  ## run mypy, strict
	nice $(BIN)/mypy

arch:  ## check that pure modules stay pure and data flows one way (import-linter)
	$(BIN)/lint-imports

page:  ## rebuild the controller's page (setup does it too)
	@scripts/page

lock:  ## pin the dependencies again (requirements/*.txt)
	@scripts/lock

# Compose 2 if it is installed, otherwise docker-compose 1.29; looked up only when it is used.
COMPOSE = $(shell docker compose version >/dev/null 2>&1 && echo docker compose || echo docker-compose)

compose-up:  ## start the cluster in containers: http://localhost:8080 (docs/guides/install.md)
	@deploy/compose/secrets
	@$(COMPOSE) up --detach --build

compose-down:  ## stop it and keep the data of Redis and nginx (docker compose down --volumes deletes it)
	@$(COMPOSE) --profile loadtest --profile monitoring down

compose-test: setup-tests  ## test it on a real engine: load, a burner, each part killed once, nothing left behind
	@deploy/compose/test

kubernetes-test: setup-tests  ## test with a real Kubernetes API server, which the first run builds
	@scripts/kubernetes-clients
	@scripts/kubernetes-api
	$(BIN)/pytest -q --timeout 600 -m kubernetes testing/kubernetes/tests

churn: setup-tests  ## run wrk for a minute while servers join, drain, leave and change weight each second: 0 failures
	CHURN_SECONDS=60 $(BIN)/pytest -q -s openresty/tests/test_churn.py

BENCH ?=
bench-dataplane:  ## measure a proxied request beside nginx, HAProxy, Envoy: CPU, rate, memory (45 min; BENCH=--quick: 6)
	@scripts/setup --with-bench
	@$(BIN)/steelyard-loadtest dataplane $(BENCH)

sim:  ## run the simulator's quick studies: ns-3, scale, stability, evidence, autoscale, Prequal, zones (10 min)
	@scripts/setup --with-simulator
	@$(BIN)/steelyard-loadtest simulate ns3 --out sim-results/ns3
	@$(BIN)/steelyard-loadtest simulate scale --quick --out sim-results/scale
	@$(BIN)/steelyard-loadtest simulate stability --quick --out sim-results/stability
	@$(BIN)/steelyard-loadtest simulate evidence --quick --out sim-results/evidence
	@$(BIN)/steelyard-loadtest simulate autoscale --quick --out sim-results/autoscale
	@$(BIN)/steelyard-loadtest simulate prequal --quick --out sim-results/prequal
	@$(BIN)/steelyard-loadtest simulate zones --quick --out sim-results/zones

report:  ## run the load lab's quick set, seven scenarios, and write docs/research/benchmarks.md (25 min)
	@scripts/setup --with-bench
	@$(BIN)/steelyard-loadtest compare all --quick --again --out loadtest-results/quick --page docs/research/benchmarks.md

chaos: setup-tests  ## inject faults one at a time under load, and write docs/research/resilience.md (15 min, root)
	@$(BIN)/steelyard-loadtest chaos --out chaos-results --page docs/research/resilience.md

soak: setup-tests  ## look for leaks under half an hour of load and churn, and write docs/research/resilience.md (root)
	@$(BIN)/steelyard-loadtest soak --out soak-results --page docs/research/resilience.md

fuzz: setup-tests  ## send malformed input to every reader, and write docs/research/resilience.md (10 min)
	@$(BIN)/steelyard-loadtest fuzz --out fuzz-results --page docs/research/resilience.md

bench-agent: setup-tests  ## measure CPU and memory of the agent by scope, beside its targets (1 min)
	@$(BIN)/python agent/benchmarks/bench_agent.py

truth: setup-tests  ## compare the agent's figures with work of a known size, in real cgroups and networks (1 min, root)
	$(BIN)/python -m agent.tests.truth --page docs/research/agent.md

BESIDE ?=
bench-cycle: setup-tests  ## measure the CPU of a tick with real Memcached and Redis (1 min; with ratios to a commit 10: BESIDE=HEAD~20)
	@$(BIN)/python controller/benchmarks/$(if $(BESIDE),beside.py $(BESIDE) cycle --,bench_cycle.py) --redis

bench-law:  ## measure the CPU of a law's step at 10 to 10,000 peers (with ratios to a commit: BESIDE=HEAD~20)
	@$(BIN)/python controller/benchmarks/$(if $(BESIDE),beside.py $(BESIDE) law,bench_law.py)

audit: setup-tests  ## ask databases of known vulnerabilities about every pinned package
	@scripts/audit

law-cases:  ## print the default law's cases of long, expensive, open and unseen requests (docs/research/law.md)
	@$(BIN)/python -m controller.tests.laws.law_cases

law-burns:  ## print how long after a neighbour's burn a server has its share again (docs/research/law.md)
	@$(BIN)/python -m steelyard_simulator.studies.burn_study

law-rarely-asked:  ## print how a server fares that is too slow for a request a second (docs/research/law.md, 1 min)
	@$(BIN)/python -m controller.tests.laws.seldom_asked

plot-law:  ## draw the step-response plots of docs/research/law.md
	@scripts/setup --with-load
	$(BIN)/python controller/benchmarks/plot_law.py

versions: setup-tests  ## test with other versions of Envoy, HAProxy, nginx, libraries (2 h; VERSIONS="--only envoy": 15 min)
	@$(BIN)/python -m testing.versions --page docs/research/versions.md $(VERSIONS)

findings:  ## run findings/*.sh: does the software around us still surprise in these ways? (outside CI, 11 min)
	@scripts/findings

release:  ## build all packages into dist/VERSION, then install and run each in a clean system: VERSION=0.1.0
	@scripts/setup --with-release
	@$(BIN)/python -m release "$(VERSION)"
	@STEELYARD_RELEASE="$(CURDIR)/dist/$(VERSION)" $(BIN)/pytest -q release/installed/tests

images:  ## build all images of the last commit, with labels (docker-bake.hcl, needs buildx): VERSION=0.1.0
	@test -n "$(VERSION)" || { echo "images: give a version: make images VERSION=0.1.0" >&2; exit 2; }
	@VERSION="$(VERSION)" REVISION="$$(git rev-parse HEAD)$$(git diff --quiet HEAD || echo -dirty)" \
	  SOURCE_DATE_EPOCH="$$(git log -1 --format=%ct)" CREATED="$$(TZ=UTC0 git log -1 --date=iso-strict-local --format=%cd)" \
	  docker buildx bake --file docker-bake.hcl $(BAKE)

clean: down  ## stop the cluster, and remove the environment and the run folder
	rm -rf .venv .run
