#!/bin/sh
# Builds aicr-sandbox and sandbox-pod into a folder: sandbox/build.sh BIN CACHE
#
# Kubernetes is built from its sources, which takes minutes the first time. What was
# built is kept in CACHE by the hash of all that it was made of.
set -eu

bin=$(mkdir -p "$1" && cd "$1" && pwd)
cache=$(mkdir -p "$2" && cd "$2" && pwd)
cd "$(dirname "$0")"

stamp=$({
	go version
	find . -type f ! -name '*_test.go' ! -name '*.md' ! -path '*/testdata/*' | LC_ALL=C sort | xargs sha256sum
} | sha256sum | cut -c1-16)

if [ ! -d "$cache/$stamp" ]; then
	# Kubernetes says its version only if it is told: kubectl refuses one that it
	# cannot read.
	version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
	major=${version#v}
	major=${major%%.*}
	minor=${version#v*.}
	minor=${minor%%.*}
	flags='-s -w'
	for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
		flags="$flags -X $package.gitVersion=$version -X $package.gitMajor=$major -X $package.gitMinor=$minor -X $package.gitTreeState=clean"
	done
	new=$(mktemp -d "$cache/new.XXXXXX")
	trap 'rm -rf "$new"' EXIT
	echo "building the sandbox; the first time this takes minutes" >&2
	export CGO_ENABLED=0
	go build -trimpath -ldflags '-s -w' -o "$new/sandbox-pod" ./cmd/sandbox-pod
	go build -trimpath -ldflags "$flags" -o "$new/aicr-sandbox" ./cmd/aicr-sandbox
	# Others are of sources that are gone. One that is being built stays.
	find "$cache" -mindepth 1 -maxdepth 1 -type d ! -name 'new.*' -exec rm -rf {} +
	mv -T "$new" "$cache/$stamp" 2>/dev/null || [ -d "$cache/$stamp" ]
fi

# In one step: the old ones may be running.
for program in sandbox-pod aicr-sandbox; do
	if ! cmp -s "$cache/$stamp/$program" "$bin/$program"; then
		cp "$cache/$stamp/$program" "$bin/$program.new"
		mv "$bin/$program.new" "$bin/$program"
	fi
done
