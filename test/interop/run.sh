#!/usr/bin/env bash
# Installs what requirements.txt locks, and runs the interop suite with it.
# `make interop` calls it; arguments go to go test, such as -run Agree. With
# INSTALL_ONLY set it installs, and no more: `make peers`.
set -euo pipefail
cd "$(dirname "$0")/../.."

lock=test/interop/requirements.txt
home=$PWD/.cache/interop
venv=$home/venv

# The locked AIPerf takes these Pythons and no others.
usable='import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))'
python=
for candidate in python3 python3.13 python3.12 python3.11; do
	if "$candidate" -c "$usable" >/dev/null 2>&1; then
		python=$candidate
		break
	fi
done
if [ -z "$python" ]; then
	{
		echo 'interop: no Python 3.11 to 3.13 with venv and pip was found'
		echo 'hint: install one; without it nothing is held against the real Dynamo and AIPerf'
	} >&2
	exit 77 # not run
fi

# A venv knows its own path and its Python. The stamp is written last, so that
# an installation that was broken off is made anew.
mkdir -p "$home"
stamp="$("$python" -c 'import sys; print(sys.version)') $venv $("$python" -c '
import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())' "$lock")"
if [ ! -f "$venv/stamp" ] || [ "$(cat "$venv/stamp")" != "$stamp" ]; then
	echo "installing $(grep -c == "$lock") packages into .cache/interop, once" >&2
	rm -rf "$venv"
	"$python" -m venv "$venv"
	"$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
		--require-hashes --no-deps --only-binary :all: -r "$lock"
	if ! conflicts=$("$venv/bin/python" -m pip check --disable-pip-version-check); then
		echo "$conflicts" >&2
		exit 1
	fi
	printf '%s' "$stamp" >"$venv/stamp"
fi

[ -z "${INSTALL_ONLY:-}" ] || exit 0

rm -f "$home"/*.md
INTEROP_VENV=$venv go test -json -parallel 4 -count 1 -p 1 -timeout 20m "$@" ./test/interop
for table in "$home"/*.md; do
	[ ! -f "$table" ] || cat "$table"
done
