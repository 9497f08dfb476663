#!/usr/bin/env bash
# Destroys what Terraform created. A second run destroys what is left.
#
# Inputs: those of check-inputs.sh; needs BUILD_FOLDER/functions.zip (its content does not matter),
# and terraform-init.sh before. If the clusters no longer exist, Terraform cannot read them: it then
# uses its state only.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

if [ -f "$BUILD_FOLDER/no-state" ]; then
    say "Nothing is deployed"
    exit 0
fi
[ -f "$BUILD_FOLDER/functions.zip" ] || fail "$BUILD_FOLDER/functions.zip does not exist; run provision-03-functions.sh"
[ -f "$BUILD_FOLDER/variables.tfvars.json" ] || fail "Terraform is not prepared; run terraform-init.sh"
options=(-auto-approve -lock-timeout=5m -var-file="$BUILD_FOLDER/variables.tfvars.json")
if ! terraform_here destroy "${options[@]}"; then
    say "Trying again with the state only, because some resources cannot be read"
    terraform_here destroy -refresh=false "${options[@]}"
fi
