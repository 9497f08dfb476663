#!/usr/bin/env bash
# Stops the build while a workload uses a pool of the provisioner, or any pool of a cluster that is
# destroyed, and after a provision build that was killed, unless FORCE=true. Also stops it if the inputs
# name another bucket or repository than the state has. Changes nothing.
#
# Inputs: PROJECT_ID; optional FORCE; needs BUILD_FOLDER/outputs.json and BUILD_FOLDER/state.json
# (terraform-init.sh), PYTHON (default: python3) with requirements.txt installed, and application
# default credentials (by hand: gcloud auth application-default login).
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

need PROJECT_ID FORCE PLAN_ONLY
[ "$PLAN_ONLY" = false ] || fail "PLAN_ONLY: the destroy build has no plan to show (got: true); valid: false, or use the provision build"
python3 "$ROOT/infra/build/check_state.py" --kept <"$BUILD_FOLDER/state.json"
if [ -f "$BUILD_FOLDER/unfinished-build" ]; then
    [ "$FORCE" = true ] || fail "the last provision build was killed, or still runs, so Terraform's state may lack resources that it created, and they would stay. Run the provision build again, then this build. To destroy without that, set FORCE=true"
    say "The last provision build was killed, or still runs. Resources that Terraform's state lacks stay, because FORCE=true"
fi
options=()
[ "$FORCE" = false ] || options+=(--force)
"${PYTHON:-python3}" "$ROOT/infra/build/remove_pools.py" --outputs "$BUILD_FOLDER/outputs.json" --state "$BUILD_FOLDER/state.json" \
    --deployment "${PROJECT_ID}_$NAME" --check "${options[@]}"
