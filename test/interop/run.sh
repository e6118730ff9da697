#!/usr/bin/env bash
# Installs what requirements.txt locks and unpacks nginx, and runs the interop suite with it.
# `make interop` calls it; arguments go to go test, such as -run Agree. With
# INSTALL_ONLY set it installs, and no more: `make peers`.
set -euo pipefail
cd "$(dirname "$0")/../.."

. test/interop/install.sh

home=$PWD/.cache/interop
venv=$home/venv

find_python
mkdir -p "$home"
install_locked test/interop/requirements.txt "$venv"
install_nginx "$home/nginx"

[ -z "${INSTALL_ONLY:-}" ] || exit 0

rm -f "$home"/*.md
INTEROP_VENV=$venv INTEROP_ENGINE=llamacpp INTEROP_NGINX=$nginx go test -json -parallel 4 -count 1 -p 1 -skip '^TestVLLM' -timeout 20m "$@" ./test/interop
for table in "$home"/*.md; do
	[ ! -f "$table" ] || cat "$table"
done
