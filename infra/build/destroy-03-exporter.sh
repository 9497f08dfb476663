#!/usr/bin/env bash
# Stops the exporter in every served cluster and removes what the build installed there: after that,
# nothing requests pools. A second run changes nothing, and a cluster that no longer exists is
# skipped. An exporter of another deployment is kept, and BUILD_FOLDER/kept-clusters gets the cluster,
# because the pools there are of that deployment.
#
# Inputs: PROJECT_ID; optional NAME, FORCE (continue if a cluster does not answer); needs
# BUILD_FOLDER/outputs.json. JobSet, Kueue and workloads are not touched: in our own environment
# they are deleted with its cluster, in other clusters they belong to the cluster's owners.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

need PROJECT_ID FORCE
stop_exporter() {
    read_exporter_topic || return 1
    if is_of_another; then
        say "Kept: the exporter and the node pools in $1, because it publishes to $TOPIC, so it is of another deployment"
        printf '%s\n' "$2" >>"$BUILD_FOLDER/kept-clusters"
        return 0
    fi
    kubectl delete namespace tpu-provisioner --ignore-not-found --wait --timeout=5m &&
        kubectl delete clusterrole,clusterrolebinding --selector=app.kubernetes.io/part-of=tpu-provisioner --ignore-not-found &&
        kubectl --namespace=default delete secret --selector=owner=helm,name=tpu-provisioner-exporter --ignore-not-found
}

read_outputs clusters >"$BUILD_FOLDER/clusters"
: >"$BUILD_FOLDER/kept-clusters"
while IFS=$'\t' read -r key project location cluster endpoint <&3; do
    if ! choose_cluster "$key" "$project" "$location" "$cluster" "$endpoint" 2>"$BUILD_FOLDER/gone"; then
        cat "$BUILD_FOLDER/gone" >&2
        grep -q -i -E 'not found|404' "$BUILD_FOLDER/gone" ||
            fail "$cluster cannot be read; is it reachable, and may this account read it?"
        say "$cluster does not exist any more"
        continue
    fi
    say "Stopping the exporter in $cluster"
    if stop_exporter "$cluster" "projects/$project/locations/$location/clusters/$cluster"; then continue; fi
    [ "$FORCE" = true ] || fail "the exporter in $cluster could not be stopped; to continue without that, set FORCE=true"
    say "The exporter could not be stopped. The build continues, because FORCE=true"
done 3<"$BUILD_FOLDER/clusters"
