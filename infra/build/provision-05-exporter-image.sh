#!/usr/bin/env bash
# Builds the exporter's image, pushes it, and writes its name with digest to
# BUILD_FOLDER/exporter-image. A second run changes nothing: the tag is a hash of the source, and an
# existing image is not built again, because a new build has another digest. With
# REBUILD_EXPORTER=true it is built again from the present base images, which have the fixes of their
# distribution, and gets a second tag with the day. With EXPORTER_IMAGE nothing is built: the released
# image of that digest is copied into the deployment's own repository, so that the nodes need no
# other registry.
#
# Inputs: PROJECT_ID, REGION; optional NAME, EXPORTER_IMAGE, REBUILD_EXPORTER. Needs docker with
# buildx, and the right to push: by hand, run `gcloud auth configure-docker REGION-docker.pkg.dev`
# first. The digest is deployed, never a tag.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

need PROJECT_ID REGION NAME REBUILD_EXPORTER
allow EXPORTER_IMAGE
image=$REPOSITORY/exporter
write_image() {
    printf '%s\n' "$1" >"$BUILD_FOLDER/exporter-image.new"
    mv "$BUILD_FOLDER/exporter-image.new" "$BUILD_FOLDER/exporter-image"
    say "The exporter is $1"
}
if [ -n "$EXPORTER_IMAGE" ]; then
    digest=${EXPORTER_IMAGE##*@}
    skip_in_plan_only "copying $EXPORTER_IMAGE to $image"
    say "Copying the released image $EXPORTER_IMAGE"
    retry 5 5 docker buildx imagetools create --tag "$image:released-${digest:7:16}" "$EXPORTER_IMAGE"
    docker buildx imagetools inspect "$image@$digest" >/dev/null ||
        fail "EXPORTER_IMAGE: the copy in $image does not have the digest $digest; deploy with another version of docker, or leave EXPORTER_IMAGE empty"
    write_image "$image@$digest"
    exit 0
fi
skip_in_plan_only "building $image if this source has no image"
list_sources() {
    find exporter shared -type f \( -name '*.py' -o -name '*.json' -o -name '*.txt' -o -name 'Dockerfile' \)
    find . -maxdepth 1 -name .dockerignore
}
hash=$(cd "$ROOT" && list_sources | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c 1-16)
tag=$image:source-$hash
if [ "$REBUILD_EXPORTER" = true ]; then
    dated=$tag-built-$(date -u +%Y%m%d)
    say "Building $dated from the present base images"
    DOCKER_BUILDKIT=1 docker build --pull --no-cache --platform=linux/amd64 --file="$ROOT/exporter/Dockerfile" \
        --tag="$tag" --tag="$dated" "$ROOT"
    retry 5 5 docker push "$tag"
    retry 5 5 docker push "$dated"
elif docker pull --quiet "$tag"; then
    say "The image of this source exists"
else
    say "Building $tag"
    DOCKER_BUILDKIT=1 docker build --platform=linux/amd64 --file="$ROOT/exporter/Dockerfile" --tag="$tag" "$ROOT"
    # A repository that was just made may refuse for a few seconds.
    retry 5 5 docker push "$tag"
fi
digest=$(docker inspect --format='{{range .RepoDigests}}{{println .}}{{end}}' "$tag" | grep -F "$image@sha256:" | head -n 1) ||
    fail "docker has no digest of $tag in $image; was it pushed?"
write_image "$digest"
