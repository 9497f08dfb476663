#!/usr/bin/env bash
# Checks whether the deployment can succeed, before anything is made: names in TERRAFORM_VARIABLES, the
# settings of the functions, the region of the state, and quotas of the region. It prints all refusals
# at once. It changes nothing but BUILD_FOLDER, also without PLAN_ONLY=true.
#
# Inputs: those of check-inputs.sh; optional PYTHON (default: python3, 3.11 or newer). What the account
# of the build may not read is mentioned and does not stop the build; docs/rights.md says which role reads it.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

need PROJECT_ID REGION SERVICES_REGION CLUSTER_NAME CREATE_ENVIRONMENT TF_STATE_BUCKET TF_STATE_PREFIX
bash "$ROOT/infra/build/python-environment.sh" # the parser of the functions needs their packages
"$BUILD_FOLDER/python/bin/python" "$ROOT/infra/build/preflight.py"
