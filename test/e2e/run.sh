#!/usr/bin/env bash
# Builds the program, its image and the sandbox, and proves the whole of inference-perf
# on it. `make e2e` calls it; arguments go to go test, such as -run Healthy.
set -euo pipefail
cd "$(dirname "$0")/../.."

home=$PWD/.cache/e2e
mkdir -p "$home"
rm -rf "${home:?}"/*

# Dynamo and AIPerf themselves, where there is a Python for them.
INSTALL_ONLY=1 test/interop/run.sh
venv=$PWD/.cache/interop/venv
if [ ! -x "$venv/bin/python" ]; then
	echo '*** E2E RUNS WITHOUT THE REAL DYNAMO AND AIPERF: there is no Python for them ***' >&2
	venv=
fi

# The sandbox's own parts meanwhile, which mostly wait as well. Only these flags build
# what the sandbox was built of. What measures comes before them.
(cd sandbox && CGO_ENABLED=0 nice -n 10 go test -trimpath -vet=off -count 1 ./...) >"$home/sandbox.log" 2>&1 &
parts=$!

# What measures its own time runs alone; of the others, each with a cluster of its own,
# four at a time: most of what they do is to wait. Each test is told as it ends, and
# all that they said when one fails.
if ! E2E_AICR=$PWD/bin/aicr E2E_SANDBOX=$PWD/bin/aicr-sandbox E2E_IMAGE=$PWD/bin/aicr-image.tar E2E_VENV=$venv E2E_KEEP=$home \
	go test -v -count 1 -parallel 4 -timeout 60m "$@" ./test/e2e 2>&1 |
	tee "$home/log" | grep --line-buffered -E '^ *--- |^(ok|FAIL|panic)'; then
	cat "$home/log" >&2
	echo "*** E2E FAILED: what the sandboxes said is in .cache/e2e ***" >&2
	exit 1
fi
if ! wait $parts; then
	cat "$home/sandbox.log" >&2
	echo '*** THE SANDBOX FAILED ITS OWN TESTS ***' >&2
	exit 1
fi
grep '^ok' "$home/sandbox.log"
