#!/usr/bin/env bash
# Plans with Terraform, lets check_plan.py refuse what may be in use, and applies exactly this plan. Writes
# BUILD_FOLDER/outputs.json, and keeps the inputs beside the state. With _PLAN_ONLY=true it shows the plan and changes
# nothing. A second run changes nothing. After a failure or a kill, run it again: docs/deploy.md names what to import.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

plan=$BUILD_FOLDER/plan
open_state
read_inputs
for name in deployment.tfvars substitutions.json; do
    diff --label="the last build: $name" --label="this build: $name" -U0 "$BUILD_FOLDER/kept/$name" "$BUILD_FOLDER/inputs/$name" || true
done
terraform_here plan -lock-timeout="${LOCK_TIMEOUT:-20m}" "${VARIABLES[@]}" -out="$plan" 2>&1 | tee "$plan.log"
# Terraform only warns of a misspelt name, and goes on with the default.
if grep -q 'undeclared variable' "$plan.log"; then
    fail "deployment.tfvars: has a name that is no variable, see the warning above; infra/deployment.example.tfvars has those that are"
fi
terraform_here show -json "$plan" >"$plan.json"
python3 "$ROOT/infra/build/check_plan.py" "${_ALLOW:-}" <"$plan.json"
skip_in_plan_only "applying this plan"
terraform_here apply -lock-timeout="${LOCK_TIMEOUT:-20m}" "$plan"
terraform_here output -json >"$BUILD_FOLDER/outputs.json"
gcloud storage cp "$BUILD_FOLDER/inputs/deployment.tfvars" "$BUILD_FOLDER/inputs/substitutions.json" "$PLACE/inputs/" --quiet
