#!/usr/bin/env bash
# Installs JobSet and Kueue, if provision-06-fetch-queueing.sh downloaded them, and waits until they
# answer. In our own environment it then creates the workloads' namespaces, account, priorities
# and queues. A second run changes nothing.
#
# Inputs: those of check-inputs.sh; needs BUILD_FOLDER/outputs.json. It installs in every served
# cluster with CREATE_ENVIRONMENT=false, otherwise only in the environment's cluster.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

need PROJECT_ID CREATE_ENVIRONMENT
allow TPU_TYPE NUM_TPU_POOLS NUM_OF_CHIPS QUOTAS
skip_in_plan_only "installing JobSet and Kueue as asked for, the namespace and its queue"
training() {
    python3 "$ROOT/infra/build/render_training.py" "$1" --outputs "$BUILD_FOLDER/outputs.json" >"$BUILD_FOLDER/training-$1.json"
}

apply() {
    kubectl apply --server-side --force-conflicts --field-manager=tpu-provisioner-build -f "$1"
}

install_product() {
    local product=$1 rendered=$BUILD_FOLDER/queueing/$1.yaml
    kubectl kustomize "$BUILD_FOLDER/queueing/$product" >"$rendered"
    grep -q "image: registry\.k8s\.io/$product/${product}[:@]" "$rendered" ||
        fail "$product: its manifests do not have the release image; is third_party/go.sum newer than this script?"
    say "Installing $product"
    apply "$rendered"
    kubectl --namespace="$product-system" rollout status "deployment/$product-controller-manager" --timeout=10m
}

install_in_cluster() {
    local product
    for product in jobset kueue; do
        if [ -d "$BUILD_FOLDER/queueing/$product" ]; then install_product "$product"; fi
    done
    if [ "$CREATE_ENVIRONMENT" = true ]; then
        training namespace
        apply "$BUILD_FOLDER/training-namespace.json"
        if [ -d "$BUILD_FOLDER/queueing/kueue" ]; then
            training queue
            # Kueue's webhooks answer some seconds after its pod is ready: their certificates are made by itself.
            retry 30 10 apply "$BUILD_FOLDER/training-queue.json"
        fi
    fi
}

read_outputs clusters >"$BUILD_FOLDER/clusters"
[ -s "$BUILD_FOLDER/clusters" ] || fail "$BUILD_FOLDER/outputs.json has no cluster; run provision-07-terraform.sh"
while IFS=$'\t' read -r key project location cluster endpoint <&3; do
    if [ "$CREATE_ENVIRONMENT" = true ] && [ "$key" != environment ]; then continue; fi
    choose_cluster "$key" "$project" "$location" "$cluster" "$endpoint"
    install_in_cluster
done 3<"$BUILD_FOLDER/clusters"
