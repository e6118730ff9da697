# What a developer does with aicr; `make` alone lists it.
# Needs Go and make. The race detector needs a C compiler as well, and is used
# where there is one.

VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT     ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null)
FUZZTIME   ?= 4s
TESTFLAGS  ?=
BENCHFLAGS ?=
INTEROPFLAGS ?=
E2EFLAGS ?=
ORACLEFLAGS ?=

# Every fuzz target, as package:function. internal/arch checks that this list
# and the tree agree.
FUZZ := \
	internal/load/sse:FuzzScanner \
	internal/load/http1:FuzzDecoder \
	internal/load/chat:FuzzChunk \
	internal/load/workload:FuzzDataset \
	internal/load/workload:FuzzInputs \
	internal/load/workload:FuzzMembers \
	internal/load/aiperf:FuzzRead \
	internal/spec:FuzzScenario \
	internal/spec:FuzzRun \
	internal/spec:FuzzLine \
	internal/spec:FuzzRecipe \
	internal/spec:FuzzHistory \
	internal/spec:FuzzConstraint \
	internal/spec:FuzzSnapshot \
	internal/spec:FuzzCatalog \
	internal/spec:FuzzConfig \
	internal/spec:FuzzFlat \
	internal/spec:FuzzVersions \
	internal/spec:FuzzLineOf \
	recipes:FuzzResolve \
	internal/kube:FuzzObject \
	internal/kube:FuzzLedger \
	internal/judge:FuzzDamagedRun \
	internal/checks/graph:FuzzAIPerfLog \
	internal/checks/graph:FuzzArchive \
	internal/checks/graph:FuzzChooseWords \
	internal/checks/graph:FuzzKept \
	internal/checks/graph:FuzzLoadMessage \
	internal/sim/serve:FuzzRequestBody \
	internal/observe:FuzzPage \
	internal/observe:FuzzKubelet \
	internal/observe:FuzzSMI \
	internal/observe:FuzzLogLine \
	internal/observe:FuzzTargets \

LINT := go tool -modfile=tools/go.mod golangci-lint

.DEFAULT_GOAL := help
.PHONY: help build image sandbox test compile warm unit proof fuzz e2e conformance interop interop-lock test-browser peers lint check-versions fmt docs schemas demo bench faithful oracle clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the one static binary, bin/aicr
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)' -o bin/aicr ./cmd/aicr

image: ## build the container image of it, bin/aicr-image.tar: an OCI archive for amd64 and arm64, without a daemon
	go run ./hack/image -o bin/aicr-image.tar -version '$(VERSION)' -commit '$(COMMIT)'

sandbox: ## build bin/aicr-sandbox, a real Kubernetes whose pods are processes; the first time takes minutes
	sandbox/build.sh bin .cache/sandbox

test: unit proof fuzz ## vet, test, prove and fuzz everything: what must pass

# The proofs measure time, so they run alone and without the race detector,
# which would be measured as well. Everything else runs with it.
PROOF := ./internal/load/proof ./internal/sim/proof ./internal/observe/proof ./internal/judge/proof ./internal/report/proof ./hack/faithful

# What does one thing at a time has no races to find, and would be many times slower
# for being watched. internal/arch checks that these start nothing beside themselves.
SEQUENTIAL := ./hack/oracle ./hack/versions ./internal/arch ./internal/judge ./internal/report ./internal/report/layout ./internal/sim/scenarios ./internal/stats ./recipes

# Whether -race works is tried, not guessed: it takes a compiler, its headers and a
# platform that has it.
RACE = $(shell CGO_ENABLED=1 go list -race -export runtime/cgo >/dev/null 2>&1 && echo -race)
WATCHED = $(shell go list ./... | grep -v -e '/proof$$' -e '/faithful$$' -e '/interop$$' -e '/e2e$$' | grep -vxF "$$(go list $(SEQUENTIAL))")

# The packages that measure, or wait for what they started, are tested one after the
# other, and the others side by side.
MEASURES := /internal/(cli|checks|load|observe|sim/serve)

compile: ## vet everything, and compile the tests
	go vet ./...
	go test -run '^$$' $(SEQUENTIAL) $(PROOF) ./test/e2e ./test/interop >/dev/null
	@CGO_ENABLED=$(if $(RACE),1,0) go test $(RACE) -run '^$$' $(WATCHED) >/dev/null

# The sandbox's own tests run beside e2e, and are too large to be compiled there.
warm: build compile sandbox ## compile all that CI runs
	$(LINT) version
	cd sandbox && CGO_ENABLED=0 go test -trimpath -vet=off -run '^$$' ./... >/dev/null
	cd test/openai && go test -run '^$$' ./... >/dev/null
	cd test/browser && go test -c -o /dev/null .

unit: compile ## vet and test, with the race detector where there is a C compiler
	go test $(TESTFLAGS) $(SEQUENTIAL)
	@race='$(RACE)'; packages='$(WATCHED)'; export CGO_ENABLED=$(if $(RACE),1,0); \
	without() { [ -n "$$race" ] || echo "*** $$1 WITHOUT THE RACE DETECTOR: there is no C compiler ***" >&2; }; \
	without TESTING; \
	echo "go test $$race $(TESTFLAGS) ./..."; \
	go test $$race $(TESTFLAGS) $$(echo "$$packages" | tr ' ' '\n' | grep -vE '$(MEASURES)') || exit 1; \
	go test $$race -p 1 $(TESTFLAGS) $$(echo "$$packages" | tr ' ' '\n' | grep -E '$(MEASURES)') || exit 1; \
	without TESTED

proof: ## hold the engine against a known truth, the simulator against the engine and the reference
	go test $(TESTFLAGS) -count 1 -p 1 $(PROOF)
	go test $(TESTFLAGS) -count 1 -run '^TestTheKneeIsTheModels$$' ./internal/cli

# go test passes when -fuzz matches nothing; internal/arch checks that each target is
# there.
fuzz: ## fuzz each target for FUZZTIME (4s), two at a time
	@printf '%s\n' $(FUZZ) | xargs -P 2 -I TARGET hack/fuzz/fuzz.sh TARGET $(FUZZTIME)

# E2EFLAGS go to go test, such as -run Healthy.
e2e: build image sandbox ## prove inference-perf on a real control plane, whose pods are processes
	test/e2e/run.sh $(E2EFLAGS)

# The program is built by the test, which the test cache knows nothing of.
conformance: ## hold aicr sim serve against the official OpenAI client
	cd test/openai && go vet ./... && go test -count 1 ./...

# Installs Dynamo and AIPerf from PyPI into .cache/interop, by the hashes of
# requirements.txt; INTEROPFLAGS go to go test.
interop: ## hold aicr against the real Dynamo and the real AIPerf
	test/interop/run.sh $(INTEROPFLAGS)

interop-lock: ## write the lock file of interop anew, with the oldest Python that it serves
	python3.11 test/interop/lock.py

# Chromium comes from Debian's packages, axe-core from npm by its hash, into
# .cache/browser; what was seen is kept there too.
test-browser: ## look at the report's page in a real browser
	test/browser/run.sh

peers: ## install what the two above need, ahead of them
	INSTALL_ONLY=1 test/interop/run.sh
	INSTALL_ONLY=1 test/browser/run.sh

lint: check-versions ## run the linters of .golangci.yml; the first time builds them, for minutes
	$(LINT) run ./...
	@test -z "$$(gofmt -l sandbox)" || { echo "gofmt: $$(gofmt -l sandbox)" >&2; exit 1; }

check-versions: ## find versions that do not go together, and those that stand elsewhere than in recipes/versions.yaml
	go run ./hack/versions

fmt: ## format the code
	$(LINT) fmt ./...

docs: ## write docs/reference anew from the commands
	go test ./internal/cli -run '^TestReferenceIsUpToDate$$' -update

schemas: ## write the JSON Schemas of the documents anew from their types
	go test ./internal/spec -run '^TestEverySchemaIsMade' -update -count 1

demo: build ## see it work: a PASS over real HTTP, then a PASS and a FAIL of eight simulated GPUs; some 70 s
	@hack/demo/demo.sh bin/aicr

bench: build ## measure what the simulator costs, then the engine beside a raw drain and the peers installed
	go test -run '^$$' -bench Episode -benchtime 20x ./internal/sim
	go run ./hack/bench run --aicr bin/aicr $(BENCHFLAGS)

faithful: ## print the simulator beside the published runs and the reference model
	go run ./hack/faithful

# About five minutes on two busy cores; ORACLEFLAGS are those of hack/oracle (-seeds 5).
oracle: ## play the scenarios of the specification with 20 seeds and score the judge
	go run ./hack/oracle $(ORACLEFLAGS)

clean: ## remove what was built
	rm -rf bin
