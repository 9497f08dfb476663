#!/usr/bin/env bash
# Installs the chart infra/helm, the exporter and the functions' rights, in every served cluster, and waits until the
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
RELEASE=tpu-provisioner-exporter
# A build that is killed in Helm leaves a record of its upgrade, and Helm then refuses every later one. Without the record
# the next upgrade begins from what was installed before. Nothing in the cluster changes by this, not even a stop.
forget_killed_upgrade() {
    kubectl --namespace=default delete secret --ignore-not-found --request-timeout=30s \
        --selector="owner=helm,name=$RELEASE,status in (pending-install,pending-upgrade,pending-rollback)"
}

read_outputs clusters >"$BUILD_FOLDER/clusters"
[ -s "$BUILD_FOLDER/clusters" ] || fail "$BUILD_FOLDER/outputs.json has no cluster; run provision-07-terraform.sh"
while IFS=$'\t' read -r key project location cluster endpoint <&3; do
    choose_cluster "$key" "$project" "$location" "$cluster" "$endpoint"
    retry 5 10 read_exporter_topic || fail "whether another deployment serves $cluster cannot be read"
    refuse_exporter_of_another "$cluster"
    say "Installing the exporter in $cluster"
    forget_killed_upgrade
    read_outputs --cluster="$key" helm-values >"$BUILD_FOLDER/values-$key.json"
    helm upgrade --install "$RELEASE" "$ROOT/infra/helm" --namespace=default --values="$BUILD_FOLDER/values-$key.json" \
        --set-string=image="$image" --history-max=5 --wait --timeout=5m
done 3<"$BUILD_FOLDER/clusters"
