#!/usr/bin/env bash
# Deletes every node pool that the provisioner created, in every served cluster, and counts down
# until the last one is deleted. A second run continues. Static pools, those of the Go TPU
# Provisioner, and those in clusters whose exporter was kept, are not touched.
#
# Inputs: PROJECT_ID; optional FORCE (continue although workloads run), POOLS_TIMEOUT_SECONDS
# (default 3000); needs BUILD_FOLDER/outputs.json, BUILD_FOLDER/state.json and
# BUILD_FOLDER/kept-clusters, and PYTHON and credentials as in destroy-01-workloads.sh.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

need PROJECT_ID FORCE
[ -f "$BUILD_FOLDER/kept-clusters" ] || fail "$BUILD_FOLDER/kept-clusters does not exist; run destroy-03-exporter.sh"
options=()
[ "$FORCE" = false ] || options+=(--force)
"${PYTHON:-python3}" "$ROOT/infra/build/remove_pools.py" --outputs "$BUILD_FOLDER/outputs.json" --state "$BUILD_FOLDER/state.json" --kept "$BUILD_FOLDER/kept-clusters" \
    --deployment "${PROJECT_ID}_$NAME" --timeout-seconds "${POOLS_TIMEOUT_SECONDS:-3000}" "${options[@]}"
