#!/usr/bin/env bash
# Proves the whole of inference-perf on the sandbox, with the program and the image in
# bin. `make e2e` calls it; arguments go to go test, such as -run Healthy.
set -euo pipefail
cd "$(dirname "$0")/../.."

home=$PWD/.cache/e2e
mkdir -p "$home"
rm -rf "${home:?}"/*

# Dynamo and AIPerf themselves, where there is a Python for them.
INSTALL_ONLY=1 test/interop/run.sh || [ $? = 77 ]
venv=$PWD/.cache/interop/venv
if [ ! -x "$venv/bin/python" ]; then
	echo '*** E2E RUNS WITHOUT THE REAL DYNAMO AND AIPERF: there is no Python for them ***' >&2
	venv=
fi

# The sandbox's own parts meanwhile, which mostly wait as well. Only these flags build
# what the sandbox was built of. What measures comes before them.
(cd sandbox && CGO_ENABLED=0 nice -n 10 go test -json -trimpath -vet=off -count 1 ./...) >"$home/sandbox.log" 2>&1 &
parts=$!

# What measures its own time runs alone; of the others, each with a cluster of its own,
# five at a time: most of what they do is to wait.
status=0
E2E_AICR=$PWD/bin/aicr E2E_SANDBOX=$PWD/bin/aicr-sandbox E2E_IMAGE=$PWD/bin/aicr-image.tar E2E_VENV=$venv E2E_KEEP=$home \
	go test -json -count 1 -parallel 5 -timeout 60m "$@" ./test/e2e || status=$?
[ $status = 0 ] || echo 'e2e: what the sandboxes said is in .cache/e2e' >&2
wait $parts || status=$?
cat "$home/sandbox.log"
exit $status
