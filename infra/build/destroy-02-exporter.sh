#!/usr/bin/env bash
# Stops the exporter in every served cluster and takes back what the build put there: nothing asks for pools any more.
# Again, and where a cluster is gone: no change.
#
# Inputs: PROJECT_ID; optional FORCE (go on where a cluster does not answer); needs BUILD_FOLDER/outputs.json. JobSet,
# Kueue and workloads are not touched: in an environment of ours they go with its cluster, elsewhere they belong to its
# people.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

need PROJECT_ID FORCE
stop_exporter() {
    kubectl delete namespace tpu-provisioner --ignore-not-found --wait --timeout=5m &&
        kubectl delete clusterrole,clusterrolebinding --selector=app.kubernetes.io/part-of=tpu-provisioner --ignore-not-found
}

read_outputs clusters >"$BUILD_FOLDER/clusters"
while IFS=$'\t' read -r key project location cluster <&3; do
    if ! choose_cluster "$key" "$project" "$location" "$cluster" 2>"$BUILD_FOLDER/gone"; then
        cat "$BUILD_FOLDER/gone" >&2
        grep -q -i -E 'not found|404' "$BUILD_FOLDER/gone" ||
            fail "$cluster could not be asked; is it reachable, and may this account see it?"
        say "$cluster is gone, and the exporter with it"
        continue
    fi
    say "Stopping the exporter in $cluster"
    if stop_exporter; then continue; fi
    [ "$FORCE" = true ] || fail "the exporter in $cluster could not be stopped; go on without, by FORCE=true"
    say "It could not be stopped, and that is left so: FORCE=true"
done 3<"$BUILD_FOLDER/clusters"
