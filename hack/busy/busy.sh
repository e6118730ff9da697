#!/usr/bin/env bash
# Runs `make test` on a machine that is not quiet: RUNS times beside four CPU hogs, and
# RUNS times on one core. `make test-busy` calls it. Every run has to pass.
set -euo pipefail
cd "$(dirname "$0")/../.."

runs=${RUNS:-5}
home=.cache/busy
rm -rf "$home"
mkdir -p "$home"
make --no-print-directory test >"$home/quiet.log" 2>&1 || { cat "$home/quiet.log" >&2; exit 1; } # compiled before

hogs=()
quiet() { [ ${#hogs[@]} -eq 0 ] || kill "${hogs[@]}" 2>/dev/null || true; hogs=(); }
trap quiet EXIT

passed=0
rows=''
try() { # NAME NUMBER COMMAND...
	local name=$1 n=$2 began=$SECONDS result=FAIL
	shift 2
	if "$@" >"$home/$name-$n.log" 2>&1; then
		result=pass
		passed=$((passed + 1))
	else
		grep -E '^(--- FAIL|    --- FAIL|FAIL|panic)' "$home/$name-$n.log" || true
	fi
	rows+=$(printf '%-14s %3d  %-4s %5d s' "$name" "$n" "$result" $((SECONDS - began)))$'\n'
	echo "$name, run $n: $result after $((SECONDS - began)) s"
}

for _ in 1 2 3 4; do
	(while :; do :; done) &
	hogs+=($!)
done
for n in $(seq "$runs"); do try four-hogs "$n" make --no-print-directory test TESTFLAGS=-count=1; done
quiet
for n in $(seq "$runs"); do try GOMAXPROCS=1 "$n" env GOMAXPROCS=1 make --no-print-directory test TESTFLAGS=-count=1; done

printf '\n%s%d of %d passed\n' "$rows" "$passed" $((2 * runs))
[ "$passed" -eq $((2 * runs)) ]
