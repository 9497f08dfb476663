#!/usr/bin/env bash
# Prepares Terraform: variables, provider, and the state in its bucket. Writes the outputs of an
# existing deployment to BUILD_FOLDER/outputs.json. Changes nothing outside BUILD_FOLDER. Fails
# if the state is about another cluster, or of another configuration. Without the bucket, nothing is
# deployed: then it writes BUILD_FOLDER/no-state, which the other scripts look for. If the last provision
# build was killed, it writes BUILD_FOLDER/unfinished-build.
#
# Inputs: those of check-inputs.sh; optional TERRAFORM (the program, default: terraform).
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

need PROJECT_ID REGION CLUSTER_NAME CREATE_ENVIRONMENT TF_STATE_BUCKET TF_STATE_PREFIX
render_variables() {
    python3 "$ROOT/infra/build/render_variables.py" --output "$BUILD_FOLDER/variables.tfvars.json"
}

rm -f "$BUILD_FOLDER/no-state" "$BUILD_FOLDER/unfinished-build"
if ! gcloud storage buckets describe "gs://$TF_STATE_BUCKET" --format='value(name)' >/dev/null 2>"$BUILD_FOLDER/gone"; then
    cat "$BUILD_FOLDER/gone" >&2
    grep -q -i -E 'not found|404' "$BUILD_FOLDER/gone" || fail "TF_STATE_BUCKET: $TF_STATE_BUCKET cannot be read"
    say "gs://$TF_STATE_BUCKET does not exist, so nothing is deployed"
    printf '{}\n' >"$BUILD_FOLDER/outputs.json"
    printf '{}\n' >"$BUILD_FOLDER/state.json"
    touch "$BUILD_FOLDER/no-state"
    render_variables
    exit 0
fi
terraform_here "${TERRAFORM_INIT[@]}" -backend-config="bucket=$TF_STATE_BUCKET" -backend-config="prefix=$TF_STATE_PREFIX"
terraform_here output -json >"$BUILD_FOLDER/outputs.json.new"
mv "$BUILD_FOLDER/outputs.json.new" "$BUILD_FOLDER/outputs.json"
terraform_here state pull >"$BUILD_FOLDER/state.json"
python3 "$ROOT/infra/build/check_state.py" <"$BUILD_FOLDER/state.json"
render_variables
if holds "$(mark_of_apply)"; then touch "$BUILD_FOLDER/unfinished-build"; fi
