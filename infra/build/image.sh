#!/usr/bin/env bash
# Builds the exporter's image, pushes it, and writes its name with digest to BUILD_FOLDER/exporter-image. A second run
# changes nothing: the tag is a hash of the source, and an image that exists is not built again. With _EXPORTER_IMAGE, a
# released image with its digest, nothing is built: it is copied into the deployment's own repository, so that the nodes
# need no other registry.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

image=$REPOSITORY/exporter
released=${_EXPORTER_IMAGE:-}
if [ -n "$released" ]; then
    check _EXPORTER_IMAGE "$released" '^[a-z0-9][-a-z0-9./:_]*@sha256:[0-9a-f]{64}$' "a released image with its digest: ghcr.io/OWNER/tpu-provisioner/exporter@sha256:…"
    skip_in_plan_only "copying $released to $image"
    digest=${released##*@}
    retry 5 5 docker buildx imagetools create --tag "$image:released-${digest:7:16}" "$released"
    docker buildx imagetools inspect "$image@$digest" >/dev/null ||
        fail "_EXPORTER_IMAGE: the copy in $image does not have the digest $digest; deploy with another version of docker, or leave it empty"
else
    list_sources() {
        find exporter shared -type f \( -name '*.py' -o -name '*.json' -o -name '*.txt' -o -name 'Dockerfile' \)
        find . -maxdepth 1 -name .dockerignore
    }
    tag=$image:source-$(cd "$ROOT" && list_sources | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c 1-16)
    skip_in_plan_only "building $tag unless it exists"
    if docker pull --quiet "$tag"; then
        say "The image of this source exists"
    else
        say "Building $tag"
        DOCKER_BUILDKIT=1 docker build --platform=linux/amd64 --file="$ROOT/exporter/Dockerfile" --tag="$tag" "$ROOT"
        retry 5 5 docker push "$tag"
    fi
    digest=$(docker inspect --format='{{range .RepoDigests}}{{println .}}{{end}}' "$tag" | grep -F "$image@sha256:" | head -n 1) ||
        fail "docker has no digest of $tag in $image; was it pushed?"
    digest=${digest##*@}
fi
printf '%s\n' "$image@$digest" >"$BUILD_FOLDER/exporter-image"
say "The exporter is $image@$digest"
