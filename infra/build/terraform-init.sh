#!/usr/bin/env bash
# Prepares Terraform: variables, provider, and the state in its bucket. Writes the outputs of an
# existing deployment to BUILD_FOLDER/outputs.json. Changes nothing outside BUILD_FOLDER. Without
# the bucket, nothing is deployed: BUILD_FOLDER/no-state then tells this to the scripts of the
# destroy build.
#
# Inputs: those of check-inputs.sh; optional TERRAFORM (the program, default: terraform).
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

need PROJECT_ID REGION CLUSTER_NAME CREATE_ENVIRONMENT TF_STATE_BUCKET TF_STATE_PREFIX
rm -f "$BUILD_FOLDER/no-state"
if ! gcloud storage buckets describe "gs://$TF_STATE_BUCKET" --format='value(name)' >/dev/null 2>"$BUILD_FOLDER/gone"; then
    cat "$BUILD_FOLDER/gone" >&2
    grep -q -i -E 'not found|404' "$BUILD_FOLDER/gone" || fail "TF_STATE_BUCKET: $TF_STATE_BUCKET cannot be read"
    say "gs://$TF_STATE_BUCKET does not exist, so nothing is deployed"
    printf '{}\n' >"$BUILD_FOLDER/outputs.json"
    touch "$BUILD_FOLDER/no-state"
    exit 0
fi
python3 "$ROOT/infra/build/render_variables.py" --output "$BUILD_FOLDER/variables.tfvars.json"
terraform_here init -reconfigure -backend-config="bucket=$TF_STATE_BUCKET" -backend-config="prefix=$TF_STATE_PREFIX"
terraform_here output -json >"$BUILD_FOLDER/outputs.json.new"
mv "$BUILD_FOLDER/outputs.json.new" "$BUILD_FOLDER/outputs.json"
# The other root's state would be read as an order to delete what only that root knows: the whole cluster, for instance.
kind=$(read_outputs kind)
if terraform_here state list 2>/dev/null | grep -q '^module\.environment\.'; then kind=complete; fi
case "$CREATE_ENVIRONMENT-$kind" in
    true-provisioner) fail "gs://$TF_STATE_BUCKET/$TF_STATE_PREFIX is the state of a provisioner without an environment; set CREATE_ENVIRONMENT=false, or another TF_STATE_PREFIX" ;;
    false-complete) fail "gs://$TF_STATE_BUCKET/$TF_STATE_PREFIX is the state of an environment; set CREATE_ENVIRONMENT=true, or another TF_STATE_PREFIX" ;;
    *) ;;
esac
