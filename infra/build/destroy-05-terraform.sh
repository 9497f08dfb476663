#!/usr/bin/env bash
# Destroys what Terraform created. The artifacts bucket with its checkpoints and the repository of the
# users' images are kept, unless DELETE_ARTIFACTS=true. A second run destroys what is left.
#
# Inputs: those of check-inputs.sh; needs BUILD_FOLDER/functions.zip (its content does not matter),
# and terraform-init.sh before. If the clusters no longer exist, Terraform cannot read them: it then
# uses its state only.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

need DELETE_ARTIFACTS
if [ -f "$BUILD_FOLDER/no-state" ]; then
    say "Nothing is deployed"
    exit 0
fi
[ -f "$BUILD_FOLDER/functions.zip" ] || fail "$BUILD_FOLDER/functions.zip does not exist; run provision-03-functions.sh"
[ -f "$BUILD_FOLDER/variables.tfvars.json" ] || fail "Terraform is not prepared; run terraform-init.sh"
cluster=module.environment.google_container_cluster.this
bucket=module.environment.google_storage_bucket.artifacts
images='module.environment.google_artifact_registry_repository.images[0]'
plan=$BUILD_FOLDER/terraform-plan
options=(-lock-timeout=5m -var-file="$BUILD_FOLDER/variables.tfvars.json")

# Terraform deletes no cluster that its state says is protected, and no bucket that holds objects unless the state
# says so. A cluster that no longer exists is not made again for that.
unprotect() {
    local targets=(-target="$cluster")
    [ "$DELETE_ARTIFACTS" = false ] || targets+=(-target="$bucket")
    terraform_here plan "${options[@]}" "${targets[@]}" -var=deletion_protection=false -var="force_destroy=$DELETE_ARTIFACTS" -out="$plan"
    terraform_here show -json "$plan" >"$plan.json"
    if python3 "$ROOT/infra/build/check_plan.py" --only-updates <"$plan.json"; then
        say "Lifting the cluster's deletion protection"
        terraform_here apply -lock-timeout=5m "$plan"
    fi
}

terraform_here state list >"$BUILD_FOLDER/resources"
if grep -q -x -F "$cluster" "$BUILD_FOLDER/resources"; then unprotect; fi
if [ "$DELETE_ARTIFACTS" = false ] && grep -q -x -F "$bucket" "$BUILD_FOLDER/resources"; then
    say "Kept: gs://$ARTIFACT_REPOSITORY_BUCKET_NAME (delete it with DELETE_ARTIFACTS=true; the next provisioning takes it over)"
    terraform_here state rm -lock-timeout=5m "$bucket"
fi
if [ "$DELETE_ARTIFACTS" = false ] && grep -q -x -F "$images" "$BUILD_FOLDER/resources"; then
    say "Kept: the repository of the users' images (delete it with DELETE_ARTIFACTS=true; the next provisioning takes it over)"
    terraform_here state rm -lock-timeout=5m "$images"
fi
if ! terraform_here destroy -auto-approve "${options[@]}"; then
    say "Trying again with the state only, because some resources cannot be read"
    terraform_here destroy -refresh=false -auto-approve "${options[@]}"
fi
