#!/usr/bin/env bash
# Installs the exporter and the functions' rights in every served cluster, and waits until the
# exporter is ready. A second run changes nothing. Refuses a cluster with the exporter of another
# deployment, because that one would lose its events and its rights.
#
# Inputs: PROJECT_ID; optional NAME; needs BUILD_FOLDER/outputs.json and BUILD_FOLDER/exporter-image (a name with
# digest).
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

need PROJECT_ID
skip_in_plan_only "installing the exporter"
[ -s "$BUILD_FOLDER/exporter-image" ] || fail "$BUILD_FOLDER/exporter-image does not exist; run provision-05-exporter-image.sh"
image=$(cat "$BUILD_FOLDER/exporter-image")
[[ $image =~ ^[^@[:space:]]+@sha256:[0-9a-f]{64}$ ]] || fail "$BUILD_FOLDER/exporter-image: is not an image with digest (got: $image)"
read_outputs clusters >"$BUILD_FOLDER/clusters"
[ -s "$BUILD_FOLDER/clusters" ] || fail "$BUILD_FOLDER/outputs.json has no cluster; run provision-07-terraform.sh"
while IFS=$'\t' read -r key project location cluster endpoint <&3; do
    choose_cluster "$key" "$project" "$location" "$cluster" "$endpoint"
    retry 5 10 read_exporter_topic || fail "whether another deployment serves $cluster cannot be read"
    refuse_exporter_of_another "$cluster"
    python3 "$ROOT/infra/build/render_exporter.py" --outputs "$BUILD_FOLDER/outputs.json" --cluster "$key" \
        --image "$image" --folder "$BUILD_FOLDER/exporter-$key"
    say "Installing the exporter in $cluster"
    kubectl kustomize "$BUILD_FOLDER/exporter-$key" >"$BUILD_FOLDER/exporter-$key.yaml"
    kubectl apply --server-side --force-conflicts --field-manager=tpu-provisioner-build -f "$BUILD_FOLDER/exporter-$key.yaml"
    kubectl --namespace=tpu-provisioner rollout status deployment/tpu-provisioner-exporter --timeout=5m
done 3<"$BUILD_FOLDER/clusters"
