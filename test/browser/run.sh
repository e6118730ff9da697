#!/usr/bin/env bash
# Makes sure of a browser, fonts and axe-core, and holds the HTML report against
# them. `make test-browser` calls it; arguments go to go test, such as -run Hover. With
# INSTALL_ONLY set it installs, and no more: `make peers`.
set -euo pipefail
cd "$(dirname "$0")/../.."

home=$PWD/.cache/browser

# The names of the hostile page are Chinese and Arabic: without a font for them
# the screenshots would show boxes, and no check would see it.
missing() {
	command -v chromium >/dev/null || echo chromium
	command -v npm >/dev/null || echo npm
	command -v fc-list >/dev/null || { echo fontconfig fonts-noto-cjk fonts-noto-core; return; }
	[ -n "$(fc-list :lang=zh family)" ] || echo fonts-noto-cjk
	[ -n "$(fc-list :lang=ar family)" ] || echo fonts-noto-core
}

packages=$(missing | xargs)
if [ -n "$packages" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	echo "installing $packages, once" >&2
	apt-get update -qq
	# shellcheck disable=SC2086 # one word a package
	DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $packages >/dev/null
	packages=$(missing | xargs)
fi
if [ -n "$packages" ]; then
	{
		echo "test-browser: these Debian packages are not there: $packages"
		echo "hint: apt-get install --no-install-recommends $packages"
	} >&2
	exit 1
fi

# npm checks what it gets against the lock file's sha512. The stamp is written
# last, so that an installation that was broken off is made anew.
mkdir -p "$home"
stamp=$(cat test/browser/package.json test/browser/package-lock.json | sha256sum)
if [ ! -f "$home/stamp" ] || [ "$(cat "$home/stamp")" != "$stamp" ]; then
	echo 'installing axe-core and its like into .cache/browser, once' >&2
	rm -rf "$home/stamp" "$home/node_modules"
	cp test/browser/package.json test/browser/package-lock.json "$home"
	(cd "$home" && npm ci --loglevel=error --ignore-scripts --no-audit --no-fund >/dev/null)
	printf '%s' "$stamp" >"$home/stamp"
fi

[ -z "${INSTALL_ONLY:-}" ] || exit 0

program=$PWD/bin/aicr
rm -rf "$home/artefacts"
mkdir -p "$home/artefacts"
status=0
(cd test/browser && go vet ./... &&
	BROWSER_HOME=$home BROWSER_PROGRAM=$program go test -json -count 1 -timeout 10m "$@" ./...) || status=$?
echo "pages and screenshots are in ${home#"$PWD"/}/artefacts"
exit $status
