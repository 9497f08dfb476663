#!/usr/bin/env bash
# Downloads the manifests of JobSet and Kueue from their published Go modules into
# BUILD_FOLDER/queueing, and checks them against third_party/go.sum. Needs go. A second run gives
# the same files.
#
# Inputs: JOBSET_API_VERSION, KUEUE_API_VERSION: a version of third_party/go.sum, or none. Empty
# means the first version there with CREATE_ENVIRONMENT=true, and none with false, because an
# existing cluster has what its owners installed. JOBSET_DIGEST, KUEUE_DIGEST: the image of that version by
# its digest; without it by its tag, which its owners could move.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

allow JOBSET_API_VERSION KUEUE_API_VERSION JOBSET_DIGEST KUEUE_DIGEST
versions=$ROOT/infra/build/third_party/versions.py
mkdir -p "$BUILD_FOLDER/queueing"
for product in jobset kueue; do
    variable=${product^^}_API_VERSION
    asked=${!variable}
    if [ -z "$asked" ] && [ "$CREATE_ENVIRONMENT" = false ]; then asked=none; fi
    version=$(python3 "$versions" --choose "$product" "$asked")
    rm -rf "${BUILD_FOLDER:?}/queueing/$product"
    if [ "$version" = none ]; then
        say "This build does not install $product"
        continue
    fi
    say "Fetching $product $version"
    mkdir -p "$BUILD_FOLDER/queueing/$product"
    python3 "$versions" --fetch "$product" "$version" "$BUILD_FOLDER/queueing/$product/config"
    variable=${product^^}_DIGEST
    exact="newTag: $version"
    if [ -n "${!variable}" ]; then
        exact="digest: ${!variable}"
    else
        say "$product is installed by its tag $version, which its owners can move to another image. To name the image by its digest, set $variable"
    fi
    # In the module, the image is the one of its developers' registry; a release is the same image in the public one.
    cat >"$BUILD_FOLDER/queueing/$product/kustomization.yaml" <<YAML
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - config/default
images:
  - name: us-central1-docker.pkg.dev/k8s-staging-images/$product/$product
    newName: registry.k8s.io/$product/$product
    $exact
YAML
done
