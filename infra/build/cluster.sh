#!/usr/bin/env bash
# Installs JobSet and Kueue as the inputs say, and the chart infra/helm (exporter, permissions, namespaces and queue of training
# workloads) in every served cluster. A second run changes nothing. Refuses a cluster with the exporter of another
# deployment, because that one would lose its events and its permissions.
#
# Needs BUILD_FOLDER/outputs.json and BUILD_FOLDER/exporter-image.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

RELEASE=tpu-provisioner-exporter
skip_in_plan_only "installing JobSet, Kueue and the exporter"
image=$(cat "$BUILD_FOLDER/exporter-image")

install_product() {
    local product=$1 version folder=$BUILD_FOLDER/queueing/$1
    version=$(read_outputs queueing "$product")
    if [ "$version" = none ]; then return 0; fi
    say "Installing $product $version"
    rm -rf "$folder"
    mkdir -p "$folder"
    retry 5 10 python3 "$ROOT/infra/build/queueing.py" "$product" "$version" "$folder"
    kubectl kustomize "$folder" >"$folder.yaml"
    grep -q "image: registry\.k8s\.io/$product/$product:" "$folder.yaml" ||
        fail "$product: its manifests do not have the release's image; is third_party/go.sum newer than this script?"
    kubectl apply --server-side --force-conflicts --field-manager=tpu-provisioner-build -f "$folder.yaml"
    kubectl --namespace="$product-system" rollout status "deployment/$product-controller-manager" --timeout=10m
}

# A build that is killed in Helm leaves a record of its upgrade, and Helm then refuses every later one. Without the record
# the next upgrade begins from what was installed before. Nothing in the cluster changes by this, not even a stop.
forget_killed_upgrade() {
    kubectl --namespace=default delete secret --ignore-not-found --request-timeout=30s \
        --selector="owner=helm,name=$RELEASE,status in (pending-install,pending-upgrade,pending-rollback)"
}

# Kueue's webhooks answer some seconds after its pod is ready, because it makes their certificates itself.
install_chart() {
    forget_killed_upgrade
    helm upgrade --install "$RELEASE" "$ROOT/infra/helm" --namespace=default --values="$1" --set-string=image="$image" \
        --history-max=5 --wait --timeout=5m
}

read_outputs clusters >"$BUILD_FOLDER/clusters"
while IFS=$'\t' read -r key project location cluster endpoint <&3; do
    choose_cluster "$key" "$project" "$location" "$cluster" "$endpoint"
    if serves_another; then
        fail "the cluster $cluster is served by another deployment, because its exporter publishes to $TOPIC. Run the destroy build of that deployment first; if it does not exist any more: kubectl delete namespace tpu-provisioner"
    fi
    install_product jobset
    install_product kueue
    say "Installing the exporter in $cluster"
    read_outputs helm_values "$key" >"$BUILD_FOLDER/values-$key.json"
    retry 5 15 install_chart "$BUILD_FOLDER/values-$key.json"
done 3<"$BUILD_FOLDER/clusters"
