#!/usr/bin/env bash
# Applies Terraform: the root infra/terraform/complete, or with CREATE_ENVIRONMENT=false
# infra/terraform/provisioner.
#
# Inputs: those of check-inputs.sh; needs BUILD_FOLDER/functions.zip. Writes
# BUILD_FOLDER/outputs.json. A second run changes nothing. After a failure, run it again:
# Terraform's state knows what exists.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

[ -f "$BUILD_FOLDER/functions.zip" ] || fail "$BUILD_FOLDER/functions.zip does not exist; run provision-03-functions.sh"
bash "$ROOT/infra/build/terraform-init.sh"
terraform_here apply -auto-approve -lock-timeout=5m -var-file="$BUILD_FOLDER/variables.tfvars.json"
terraform_here output -json >"$BUILD_FOLDER/outputs.json.new"
mv "$BUILD_FOLDER/outputs.json.new" "$BUILD_FOLDER/outputs.json"
