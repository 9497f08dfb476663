#!/usr/bin/env bash
# Destroys what Terraform made. Again: what is left, if anything.
#
# Inputs: as check-inputs.sh has them; needs BUILD_FOLDER/functions.zip (any: it is only looked for), and
# terraform-init.sh before. If the clusters themselves are gone already, Terraform cannot read them any more: it then
# goes by its state alone.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

if [ -f "$BUILD_FOLDER/no-state" ]; then
    say "Nothing is deployed"
    exit 0
fi
[ -f "$BUILD_FOLDER/functions.zip" ] || fail "$BUILD_FOLDER/functions.zip is not there; run provision-03-functions.sh"
[ -f "$BUILD_FOLDER/variables.tfvars.json" ] || fail "Terraform is not prepared; run terraform-init.sh"
options=(-auto-approve -lock-timeout=5m -var-file="$BUILD_FOLDER/variables.tfvars.json")
if ! terraform_here destroy "${options[@]}"; then
    say "Once more, by the state alone: what is gone cannot be read"
    terraform_here destroy -refresh=false "${options[@]}"
fi
