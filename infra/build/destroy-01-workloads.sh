#!/usr/bin/env bash
# Stops the build while a workload uses a pool of the provisioner, or any pool of a cluster that is
# destroyed, unless FORCE=true. Changes nothing.
#
# Inputs: PROJECT_ID; optional FORCE; needs BUILD_FOLDER/outputs.json (terraform-init.sh) and PYTHON
# (default: python3) with requirements.txt installed, and application default credentials (by hand:
# gcloud auth application-default login).
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

need PROJECT_ID FORCE PLAN_ONLY
[ "$PLAN_ONLY" = false ] || fail "PLAN_ONLY: the destroy build has no plan to show (got: true); valid: false, or use the provision build"
options=()
[ "$FORCE" = false ] || options+=(--force)
"${PYTHON:-python3}" "$ROOT/infra/build/remove_pools.py" --outputs "$BUILD_FOLDER/outputs.json" --check "${options[@]}"
