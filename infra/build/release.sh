#!/usr/bin/env bash
# Makes the artifacts of a release from this checkout, pushes them and signs them: the exporter's image for linux/amd64 with
# its SBOM and provenance, and the Helm chart whose default is that image. BUILD_FOLDER/release holds checksums and
# release.json with every digest. docs/develop/release.md has the steps around it.
#
# Inputs: RELEASE_REGISTRY, such as ghcr.io/OWNER/tpu-provisioner; optional COSIGN_KEY, a key file or a key of Cloud KMS
# (gcpkms://…; default: the identity of whoever runs it, without a key), BUILD_FOLDER, and PYTHON. Needs git with the tag
# vX.Y.Z on this commit, docker with buildx and a builder that writes attestations (docker buildx create --use), helm 3.8,
# cosign 2, and the right to push.
set -euo pipefail

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

say() {
    printf '%s\n' "$*"
}

ROOT=$(cd "$(dirname "$0")/../.." && pwd)
BUILD_FOLDER=${BUILD_FOLDER:-$ROOT/build/deploy}
[[ ${RELEASE_REGISTRY:-} =~ ^[a-z0-9][-a-z0-9.:]*(/[a-z0-9][-a-z0-9._]*)+$ ]] ||
    fail "RELEASE_REGISTRY: is not valid (got: '${RELEASE_REGISTRY:-}'); valid: a registry's host and a path in lower case, such as ghcr.io/OWNER/tpu-provisioner"
cd "$ROOT"
version=$("${PYTHON:-python3}" -c 'from shared import VERSION; print(VERSION)')
git describe --exact-match --match "v$version" HEAD >/dev/null 2>&1 ||
    fail "this commit does not have the tag v$version, which is the version in shared/__init__.py; run: git checkout v$version"
[ -z "$(git status --porcelain)" ] || fail "the checkout has changes, so its artifacts would not be those of v$version; run: git status"
folder=$BUILD_FOLDER/release
rm -rf "$folder"
mkdir -p "$folder/chart"

# The digest that buildx wrote for what it pushed.
read_digest() {
    "${PYTHON:-python3}" -c 'import json, sys; print(json.load(open(sys.argv[1]))["containerimage.digest"])' "$1"
}

sign() {
    cosign sign --yes ${COSIGN_KEY:+--key "$COSIGN_KEY"} "$1"
}

image=$RELEASE_REGISTRY/exporter
say "Building $image:$version with its SBOM and provenance"
docker buildx build --pull --platform=linux/amd64 --file=exporter/Dockerfile --build-arg="REVISION=$(git rev-parse HEAD)" \
    --sbom=true --provenance=mode=max --tag="$image:$version" --push --metadata-file="$folder/image.json" .
image=$image@$(read_digest "$folder/image.json")
sign "$image"

say "Packing the chart, whose default is $image"
cp -r infra/helm/. "$folder/chart"
sed -i "s|^image: \"\"\$|image: \"$image\"|" "$folder/chart/values.yaml"
grep -q -F "image: \"$image\"" "$folder/chart/values.yaml" || fail "infra/helm/values.yaml has no line: image: \"\""
helm package "$folder/chart" --destination "$folder" >/dev/null
helm push "$folder/tpu-provisioner-exporter-$version.tgz" "oci://$RELEASE_REGISTRY/charts" 2>&1 | tee "$folder/pushed"
chart=$RELEASE_REGISTRY/charts/tpu-provisioner-exporter@$(sed -n 's/^Digest: //p' "$folder/pushed")
sign "$chart"

rm -r "$folder/chart" "$folder/image.json" "$folder/pushed"
printf '{"version": "%s", "exporter_image": "%s", "chart": "%s"}\n' "$version" "$image" "$chart" >"$folder/release.json"
(cd "$folder" && sha256sum -- *.tgz release.json >SHA256SUMS)
say "Released $version: deploy with _EXPORTER_IMAGE=$image"
