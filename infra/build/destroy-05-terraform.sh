#!/usr/bin/env bash
# Destroys what Terraform created. The artifacts bucket with its checkpoints and the repository of the
# users' images are kept, unless DELETE_ARTIFACTS=true. A second run destroys what is left; what an
# earlier run kept is no longer in the state, so it says how to delete it. If the state has nothing and
# a deployment is there, it fails unless FORCE=true, because the inputs or the state are wrong.
#
# Inputs: those of check-inputs.sh; needs BUILD_FOLDER/functions.zip (its content does not matter),
# and terraform-init.sh before. If the clusters no longer exist, Terraform cannot read them: it then
# uses its state only.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

need DELETE_ARTIFACTS FORCE
python3 "$ROOT/infra/build/check_state.py" --kept <"$BUILD_FOLDER/state.json"
cluster=module.environment.google_container_cluster.this
bucket=module.environment.google_storage_bucket.artifacts
images='module.environment.google_artifact_registry_repository.images[0]'
delete_bucket="gcloud storage rm --recursive gs://$ARTIFACT_REPOSITORY_BUCKET_NAME"
delete_images="gcloud artifacts repositories delete $IMAGE_REPOSITORY --location=$REGION --project=$PROJECT_ID"
in_state() {
    grep -q -x -F "$1" "$BUILD_FOLDER/resources"
}

# What was asked to be deleted and is not in the state: the address, its name, the command that deletes it, and the
# gcloud command that finds it. Its label says whose it is.
say_not_deleted() {
    local address=$1 name=$2 delete=$3
    shift 3
    if in_state "$address"; then return 0; fi
    if [ "$(gcloud "$@" --project="$PROJECT_ID" --format='value(labels.app)' --quiet)" = "$NAME" ]; then
        say "Not deleted: $name is not in the state, because an earlier run kept it. To delete it: $delete"
    else
        say "Not deleted: $name is not in the state, and no label says that it is of $NAME"
    fi
}
say_what_is_not_deleted() {
    [ "$DELETE_ARTIFACTS" = true ] && [ "$CREATE_ENVIRONMENT" = true ] || return 0
    say_not_deleted "$bucket" "gs://$ARTIFACT_REPOSITORY_BUCKET_NAME" "$delete_bucket" \
        storage buckets describe "gs://$ARTIFACT_REPOSITORY_BUCKET_NAME"
    [ -z "$IMAGE_REPOSITORY" ] || say_not_deleted "$images" "the repository $IMAGE_REPOSITORY" "$delete_images" \
        artifacts repositories describe "$IMAGE_REPOSITORY" --location="$REGION"
}

# Where nothing is in the state, the name, the project or the state's place may be wrong, and all goes on. Each deployment
# has one topic, named after it.
refuse_traces() {
    local names why
    if [ -s "$BUILD_FOLDER/resources" ]; then return 0; fi
    if ! gcloud pubsub topics list --project="$PROJECT_ID" --format='value(name)' --quiet >"$BUILD_FOLDER/topics" 2>"$BUILD_FOLDER/gone"; then
        cat "$BUILD_FOLDER/gone" >&2
        grep -q -i -E 'SERVICE_DISABLED|has not been used|is disabled' "$BUILD_FOLDER/gone" || fail "the topics of $PROJECT_ID cannot be listed, so it is not known whether something is deployed"
        return 0
    fi
    names=$(sed -n 's|.*/||; s|-workload-events$||p' "$BUILD_FOLDER/topics")
    if grep -q -x -F "$NAME" <<<"$names"; then
        why="$NAME is deployed in $PROJECT_ID, and gs://$TF_STATE_BUCKET/$TF_STATE_PREFIX knows nothing of it. Correct TF_STATE_BUCKET or TF_STATE_PREFIX. If the state is lost, run the provision build, which finds again what it made, and then this build"
    elif [ -n "$names" ] && ! { [ ! -f "$BUILD_FOLDER/no-state" ] && holds "gs://$TF_STATE_BUCKET/$TF_STATE_PREFIX/default.tfstate"; }; then
        why="NAME: nothing was ever deployed as $NAME in $PROJECT_ID, or its state was deleted (got: $NAME); valid: ${names//$'\n'/, }. If $NAME is destroyed already, nothing is left to do"
    else
        return 0
    fi
    [ "$FORCE" = true ] || fail "$why"
    say "$why. The build continues, because FORCE=true"
}

# What a killed build left is destroyed as far as the state knew it (FORCE=true). The next deployment must not take the
# time of that build for its custom roles: Google blocks their IDs after the destroy.
unmark_killed_build() {
    if [ -f "$BUILD_FOLDER/unfinished-build" ]; then gcloud storage rm --all-versions "$(mark_of_apply)" --quiet; fi
}

if [ -f "$BUILD_FOLDER/no-state" ]; then
    : >"$BUILD_FOLDER/resources"
    refuse_traces
    say "Nothing is deployed"
    say_what_is_not_deleted
    exit 0
fi
[ -f "$BUILD_FOLDER/functions.zip" ] || fail "$BUILD_FOLDER/functions.zip does not exist; run provision-03-functions.sh"
[ -f "$BUILD_FOLDER/variables.tfvars.json" ] || fail "Terraform is not prepared; run terraform-init.sh"
options=(-var-file="$BUILD_FOLDER/variables.tfvars.json")

# Terraform deletes no cluster that its state says is protected, and no bucket that holds objects unless the state
# says so. Nothing is deleted before this. Arguments: the addresses.
unprotect() {
    terraform_here state pull >"$BUILD_FOLDER/state.json"
    python3 "$ROOT/infra/build/unprotect.py" "$@" <"$BUILD_FOLDER/state.json" >"$BUILD_FOLDER/unprotected.json"
    terraform_locked state push "$BUILD_FOLDER/unprotected.json" ||
        fail "the protection of $* cannot be lifted in the state, so nothing is destroyed; correct what Terraform says above, then run this build again"
}

# An address, and words for it.
keep() {
    in_state "$1" || return 0
    say "Kept: $2"
    terraform_locked state rm "$1"
}

terraform_here state list >"$BUILD_FOLDER/resources"
refuse_traces
say_what_is_not_deleted
protected=()
if in_state "$cluster"; then
    say "Lifting the cluster's deletion protection"
    protected+=("$cluster")
fi
if [ "$DELETE_ARTIFACTS" = true ] && in_state "$bucket"; then
    say "Lifting the protection of the bucket's objects"
    protected+=("$bucket")
fi
[ ${#protected[@]} = 0 ] || unprotect "${protected[@]}"
if [ "$DELETE_ARTIFACTS" = false ]; then
    keep "$bucket" "gs://$ARTIFACT_REPOSITORY_BUCKET_NAME, which the next provisioning takes over. To delete it later: $delete_bucket"
    keep "$images" "the repository of the users' images, which the next provisioning takes over. To delete it later: $delete_images"
fi
if ! terraform_locked destroy -auto-approve "${options[@]}"; then
    say "Trying again with the state only, because some resources cannot be read"
    terraform_locked destroy -refresh=false -auto-approve "${options[@]}"
fi
unmark_killed_build
