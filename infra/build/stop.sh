#!/usr/bin/env bash
# First step of a destroy: refuses while a pool of this deployment or, in an environment, a pod of a person is there. Then
# it stops the functions and removes the exporter with its permissions. A second run changes nothing, and a cluster that is gone
# is skipped. With _FORCE=true it asks no cluster, and deletes the deployment's pools with what runs on them.
#
# The product deletes a pool when its workload is over. So whoever ends the workloads first needs no force.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

force=${_FORCE:-false}
check _FORCE "$force" '^(true|false)$' "true or false"
[ "${_PLAN_ONLY:-false}" = false ] || fail "_PLAN_ONLY: the destroy build has no plan to show; valid: false, or use the provision build"
open_state
terraform_here output -json >"$BUILD_FOLDER/outputs.json"
terraform_here state list >"$BUILD_FOLDER/resources" || : >"$BUILD_FOLDER/resources"
read_outputs clusters >"$BUILD_FOLDER/clusters"
if grep -q -F 'google_container_cluster.this' "$BUILD_FOLDER/resources" && ! grep -q '^environment' "$BUILD_FOLDER/clusters" && [ "$force" = false ]; then
    fail "the build that created the cluster did not end well, so what runs there cannot be read. Run the provision build again, then this one; or set _FORCE=true"
fi

# Run a command that may find its object gone.
unless_gone() {
    if "$@" 2>"$BUILD_FOLDER/gone"; then return 0; fi
    cat "$BUILD_FOLDER/gone" >&2
    grep -q -i -E 'not found|NOT_FOUND|not exist|404' "$BUILD_FOLDER/gone" || return 1
    say "It does not exist any more"
}

# Name, location, project.
list_pools() {
    unless_gone gcloud container node-pools list --cluster="$1" --location="$2" --project="$3" --format=json --quiet \
        >"$BUILD_FOLDER/pools.json" || fail "the node pools of $1 cannot be listed"
    [ -s "$BUILD_FOLDER/pools.json" ] && grep -q '^\[' "$BUILD_FOLDER/pools.json" || printf '[]' >"$BUILD_FOLDER/pools.json"
}

in_use() {
    python3 "$ROOT/infra/build/in_use.py" --deployment="${PROJECT_ID}_$NAME" "$@"
}

refuse_use() {
    local files=("$BUILD_FOLDER/pools.json") lines
    list_pools "$4" "$3" "$2"
    if [ "$1" = environment ] && choose_cluster "$@"; then
        kubectl get pods --all-namespaces --output=json --request-timeout=60s >"$BUILD_FOLDER/pods.json" ||
            fail "what runs in $4 cannot be read; with _FORCE=true it is not asked"
        files+=("$BUILD_FOLDER/pods.json")
    fi
    lines=$(in_use "${files[@]}")
    [ -z "$lines" ] || fail "$4 is in use. End the workloads, and the functions delete their pools; or set _FORCE=true:
$lines"
}

remove_exporter() {
    if ! choose_cluster "$@" 2>"$BUILD_FOLDER/gone"; then
        cat "$BUILD_FOLDER/gone" >&2
        if [ "$force" = true ] || grep -q -i -E 'not found|404' "$BUILD_FOLDER/gone"; then return 0; fi
        fail "$4 does not answer; with _FORCE=true this build goes on without it"
    fi
    if serves_another; then
        say "Kept: the exporter in $4, because it publishes to $TOPIC, so it is of another deployment"
        return 0
    fi
    kubectl delete namespace tpu-provisioner --ignore-not-found --wait --timeout=5m
    kubectl delete clusterrole,clusterrolebinding --selector=app.kubernetes.io/part-of=tpu-provisioner --ignore-not-found
    kubectl --namespace=default delete secret --selector=owner=helm,name=tpu-provisioner-exporter --ignore-not-found
}

# GKE deletes a pool only after its create has ended; without capacity, that takes half an hour.
delete_pools() {
    local pool
    list_pools "$4" "$3" "$2"
    in_use --pools "$BUILD_FOLDER/pools.json" >"$BUILD_FOLDER/own-pools"
    if [ -s "$BUILD_FOLDER/own-pools" ] && [ "$force" = false ]; then
        fail "$4 got new node pools meanwhile: $(tr '\n' ' ' <"$BUILD_FOLDER/own-pools"). The functions are stopped: run the provision build to go on with them, or this one with _FORCE=true"
    fi
    while IFS= read -r pool <&4; do
        say "Deleting the node pool $pool"
        retry 40 60 unless_gone gcloud container node-pools delete "$pool" --cluster="$4" --location="$3" --project="$2" --quiet
    done 4<"$BUILD_FOLDER/own-pools"
}

# Do something for each served cluster: key, project, location, name, flag of its endpoint.
each_cluster() {
    local row
    while IFS=$'\t' read -r -a row <&3; do "$1" "${row[@]}"; done 3<"$BUILD_FOLDER/clusters"
}

[ "$force" = true ] || each_cluster refuse_use
# The functions stop before their permissions go, so that no call fails and no alert fires.
for job in $(read_outputs scheduler_jobs); do
    say "Pausing $job"
    state=$(gcloud scheduler jobs describe "$job" --format='value(state)' 2>"$BUILD_FOLDER/gone") || true
    [ "$state" = PAUSED ] || unless_gone gcloud scheduler jobs pause "$job" --quiet
done
for subscription in $(read_outputs push_subscriptions); do
    say "Detaching $subscription from its function"
    unless_gone gcloud pubsub subscriptions modify-push-config "$subscription" --push-endpoint="" --quiet
done
each_cluster remove_exporter
each_cluster delete_pools
