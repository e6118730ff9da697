#!/bin/sh
# The main job, from end to end, on fleets that do not exist: what make demo runs.
# Takes the program as its argument and keeps the runs in demo/.
set -eu
aicr=$1
rm -rf demo
mkdir demo

step() {
	printf '\n────  %s\n\n' "$1"
}

# A verdict of FAIL is what the third part is for: 1 is its exit code.
expect() {
	want=$1
	shift
	code=0
	"$@" || code=$?
	if [ "$code" -ne "$want" ]; then
		echo "demo: $* ended with $code, not $want" >&2
		exit 1
	fi
}

step '1 of 3: real HTTP. Two simulated workers, served by this program, loaded by the real engine and observed by their metrics pages. About a minute.'
expect 0 "$aicr" validate --sim small --real-time --profile smoke --episode-duration 15s --run demo/small

step '2 of 3: virtual time. A healthy fleet of eight H100s that exists only as a model; its minutes pass in seconds.'
expect 0 "$aicr" validate --sim healthy --run demo/healthy

step '3 of 3: virtual time. The same fleet, with one worker that stalls for 9 s now and then. FAIL is the right answer.'
expect 1 "$aicr" validate --sim stalls-on-one-worker --run demo/stalls --report html=demo/stalls.html

cat <<'END'

────  What you saw

  PASS    a small fleet over real HTTP; only the servers were simulated
  PASS    a healthy fleet of eight GPUs, in virtual time
  FAIL    the same fleet with a stalled worker: which worker, how often, and what to do next

  demo/stalls.html is the page to look at, or to send to somebody.
  demo/*/verdict.json has each verdict, demo/*/episodes what it was made from.
  Judge one again:    bin/aicr judge demo/stalls
  On your endpoint:   bin/aicr knee --url http://HOST:PORT --workers N --write reference.yaml
                      bin/aicr validate --url http://HOST:PORT --workers N --recipe reference.yaml
END
