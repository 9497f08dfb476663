#!/usr/bin/env bash
# Plans with Terraform and applies exactly this plan: the root infra/terraform/complete, or with
# CREATE_ENVIRONMENT=false infra/terraform/provisioner. Stops before a plan that deletes or replaces
# a bucket, network, node pool, TensorBoard or repository of the users' images, unless ALLOW_DELETE
# names it, and always before one that deletes or replaces a protected cluster. With PLAN_ONLY=true it
# shows the plan and changes nothing.
#
# Inputs: those of check-inputs.sh; needs BUILD_FOLDER/functions.zip. Writes
# BUILD_FOLDER/outputs.json. A second run changes nothing. After a failure, run it again: Terraform's
# state knows what exists, and what a killed build created is imported (adopt.py, find_by_name.py). If
# Google does not know a new account, grant, API or metric everywhere yet, it waits and applies again:
# TERRAFORM_WAITS times (default 20), 30 s each. While it applies, an object beside the state says so:
# the destroy build refuses to run after a killed one.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

plan=$BUILD_FOLDER/terraform-plan applying=false
deployed_at=$(TZ=UTC printf '%(%Y%m%d%H%M%S)T' -1) # counts in a first apply only
# Google's words where an account, a grant, an API or a metric was made seconds ago and is not known everywhere yet. What a
# service refuses only while an operation runs has the code 7 (or 13, for a build that may not read its source), not 403:
# https://github.com/hashicorp/terraform-provider-google/issues/21857, /issues/20571 (functions), /issues/11102 (metrics).
not_yet='Error 403.*([Pp]ermission|actAs|not authorized)|[Ss]ervice account .* does not exist|[Pp]rincipal .* does not exist|has not been used in project'
not_yet+='|Error code 7\b|[Mm]issing permission|[Uu]ser not authorized|Unable to retrieve the repository metadata|Access to bucket .* denied'
not_yet+='|[Mm]etric .*is unknown|Cannot find metric|Policy update access denied'
# Terraform's words where it ends by itself and its state may lack what it made.
not_saved='Failed to (save|persist) state|errored\.tfstate|[Dd]ata loss may have occurred|TERRAFORM CRASH'
# Google says that a metric takes up to 10 minutes, and a grant up to 7.
waits_max=${TERRAFORM_WAITS:-20}
# The provider's words where a plan was made before an update of the cluster: its endpoint, which the functions get, is
# read again after the update only, and the provider cannot plan with a value that it does not know yet.
planned_too_early='Provider produced inconsistent final plan'
# Terraform's words where another build has applied since this one planned.
planned_before_another='Saved plan is stale'

# Terraform reads a copy from now on, to which files can be added.
copy_roots() {
    [ "${TERRAFORM_ROOT%/*}" != "$BUILD_FOLDER/roots" ] || return 0
    rm -rf "$BUILD_FOLDER/roots"
    cp -R "$ROOT/infra/terraform" "$BUILD_FOLDER/roots"
    TERRAFORM_ROOT=$BUILD_FOLDER/roots/${TERRAFORM_ROOT##*/}
}

# Take over what the destroy build kept, which is in no state: its address, Terraform's id, its name, and the gcloud
# command that finds it. What exists and is of others is refused by the plan, before anything is made.
take_over() {
    local address=$1 id=$2 name=$3
    shift 3
    if grep -q -x -F "$address" "$BUILD_FOLDER/resources"; then return 0; fi
    if gcloud "$@" --project="$PROJECT_ID" --format='value(name)' --quiet >/dev/null 2>"$BUILD_FOLDER/gone"; then
        say "$name exists already, so it is taken over if it is of this deployment"
        copy_roots
        printf 'import {\n  to = %s\n  id = "%s"\n}\n' "$address" "$id" >>"$TERRAFORM_ROOT/adopted.tf"
    elif ! grep -q -i -E 'not found|NOT_FOUND|404|SERVICE_DISABLED|has not been used|is disabled' "$BUILD_FOLDER/gone"; then
        cat "$BUILD_FOLDER/gone" >&2
        fail "$name cannot be read; if it belongs to another project, choose another name"
    fi
}

take_over_what_was_kept() {
    : >"$BUILD_FOLDER/resources"
    [ -f "$BUILD_FOLDER/no-state" ] || terraform_here state list >"$BUILD_FOLDER/resources"
    take_over module.environment.google_storage_bucket.artifacts "$PROJECT_ID/$ARTIFACT_REPOSITORY_BUCKET_NAME" \
        "gs://$ARTIFACT_REPOSITORY_BUCKET_NAME" storage buckets describe "gs://$ARTIFACT_REPOSITORY_BUCKET_NAME"
    [ -z "$IMAGE_REPOSITORY" ] ||
        take_over 'module.environment.google_artifact_registry_repository.images[0]' \
            "projects/$PROJECT_ID/locations/$REGION/repositories/$IMAGE_REPOSITORY" \
            "the repository $IMAGE_REPOSITORY" artifacts repositories describe "$IMAGE_REPOSITORY" --location="$REGION"
}

make_plan() {
    terraform_locked plan -var-file="$BUILD_FOLDER/variables.tfvars.json" \
        -var="deployed_at=$deployed_at" -out="$plan"
    terraform_here show -json "$plan" >"$plan.json"
    python3 "$ROOT/infra/build/adopt.py" --check --plan "$plan.json"
    python3 "$ROOT/infra/build/check_plan.py" <"$plan.json"
}

# Before anything is made. Where a cluster does not answer now, provision-09-exporter.sh checks it.
refuse_served_clusters() {
    python3 "$ROOT/infra/build/render_variables.py" --clusters >"$BUILD_FOLDER/clusters-given"
    while IFS=$'\t' read -r key project location cluster endpoint <&3; do
        if choose_cluster "$key" "$project" "$location" "$cluster" "$endpoint" && read_exporter_topic; then
            refuse_exporter_of_another "$cluster"
        else
            say "Not checked yet: whether another deployment serves $cluster, because the cluster cannot be read"
        fi
    done 3<"$BUILD_FOLDER/clusters-given"
}

# Import what the plan would create a second time.
take_over_by_name() {
    python3 "$ROOT/infra/build/find_by_name.py" --plan "$plan.json" --output "$BUILD_FOLDER/found.tf"
    [ -s "$BUILD_FOLDER/found.tf" ] || return 0
    copy_roots
    cat "$BUILD_FOLDER/found.tf" >>"$TERRAFORM_ROOT/adopted.tf"
    make_plan
}

# Before one address loses a grant that another one gets.
move_grants() {
    local from to
    python3 "$ROOT/infra/build/move_grants.py" --plan "$plan.json" >"$BUILD_FOLDER/moves"
    [ -s "$BUILD_FOLDER/moves" ] || return 0
    while IFS=$'\t' read -r from to <&3; do terraform_locked state mv "$from" "$to"; done 3<"$BUILD_FOLDER/moves"
    make_plan
}

# A deployment whose state is lost has custom roles with its time in their IDs. With another time this build would make
# others, and the grants of the first ones would outlive all builds.
take_over_time_of_roles() {
    local roles where="name~\"/${NAME//-/_}_node_pools_[0-9]{14}\$\" AND description~\" in project $PROJECT_ID \""
    if grep -q '"google_project_iam_custom_role"' "$BUILD_FOLDER/state.json"; then return 0; fi
    if ! roles=$(gcloud iam roles list --project="$CLUSTER_PROJECT" --filter="$where" --format='value(name)' 2>"$BUILD_FOLDER/gone"); then
        say "Not checked: whether custom roles of an earlier deployment exist, because they cannot be listed"
        return 0
    fi
    roles=$(sort <<<"$roles")
    [[ ${roles##*_} =~ ^[0-9]{14}$ ]] || return 0
    deployed_at=${roles##*_}
    say "The state is new, and custom roles of an earlier deployment of $NAME exist, so this build takes them over: ${roles##*/}"
}

# Terraform has saved all that it made, unless it was killed, crashed or could not save.
apply() {
    local code=0
    applying=true
    terraform_locked apply "$plan" 2>"$BUILD_FOLDER/apply-errors" || code=$?
    if [ "$code" -le 1 ] && ! grep -q -E "$not_saved" "$BUILD_FOLDER/apply-errors"; then applying=false; fi
    return "$code"
}

unmark() {
    gcloud storage rm --all-versions "$(mark_of_apply)" --quiet
}

# A build that fails by itself leaves no mark, unless an earlier one was killed.
unmark_failure() {
    if [ "$applying" = false ] && [ ! -f "$BUILD_FOLDER/unfinished-build" ]; then unmark; fi
}

[ -f "$BUILD_FOLDER/functions.zip" ] || fail "$BUILD_FOLDER/functions.zip does not exist; run provision-03-functions.sh"
bash "$ROOT/infra/build/terraform-init.sh"
if [ -f "$BUILD_FOLDER/no-state" ]; then
    [ "$PLAN_ONLY" = true ] || fail "gs://$TF_STATE_BUCKET does not exist; run provision-02-state-bucket.sh"
    copy_roots # a plan needs a place for its state; this one is empty
    printf 'terraform {\n  backend "local" {}\n}\n' >"$TERRAFORM_ROOT/backend_override.tf"
    terraform_here "${TERRAFORM_INIT[@]}"
fi
if [ -f "$BUILD_FOLDER/unfinished-build" ]; then
    say "The last provision build was killed, or still runs. This build imports what Terraform's state lacks"
    # The custom roles of that build have its time in their IDs.
    if gcloud storage cp "$(mark_of_apply)" "$BUILD_FOLDER/killed-at" --quiet; then killed_at=$(<"$BUILD_FOLDER/killed-at"); fi
    if [[ ${killed_at:-} =~ ^[0-9]{14}$ ]]; then deployed_at=$killed_at; fi
fi
say_what_is_not_set
say_what_changes
take_over_time_of_roles
refuse_served_clusters
[ "$CREATE_ENVIRONMENT" = false ] || take_over_what_was_kept
make_plan
take_over_by_name
skip_in_plan_only "applying this plan"
move_grants
printf '%s\n' "$deployed_at" | gcloud storage cp - "$(mark_of_apply)" --quiet
trap unmark_failure EXIT
waits=0 plans=0
while ! apply; do
    cat "$BUILD_FOLDER/apply-errors" >&2
    copy_roots
    if python3 "$ROOT/infra/build/adopt.py" --errors "$BUILD_FOLDER/apply-errors" --plan "$plan.json" --output "$TERRAFORM_ROOT/adopted.tf"; then
        # A resource is met only when those that it needs are there, so one import does not find all. Each one imports
        # what no earlier one did, so there is a last one.
        say "A killed build created these resources, so this build imports them"
    elif [ "$waits" -lt "$waits_max" ] && grep -q -E "$not_yet" "$BUILD_FOLDER/apply-errors"; then
        waits=$((waits + 1))
        say "A new account, grant, API or metric may have no effect yet: wait $waits of $waits_max, 30 s"
        sleep "${RETRY_PAUSE_SECONDS:-30}"
    elif [ "$plans" -lt 2 ] && grep -q "$planned_too_early" "$BUILD_FOLDER/apply-errors"; then
        plans=$((plans + 1))
        say "The cluster was updated, so what depends on it is planned again"
    elif [ "$plans" -lt 2 ] && grep -q "$planned_before_another" "$BUILD_FOLDER/apply-errors"; then
        plans=$((plans + 1))
        say "Another build has changed this deployment meanwhile, so this build plans again"
    else
        fail "Terraform failed; correct what it says above, then run this build again"
    fi
    make_plan
done
cat "$BUILD_FOLDER/apply-errors" >&2
trap - EXIT
unmark
list_inputs | gcloud storage cp - "$(kept_inputs)" --quiet
terraform_here output -json >"$BUILD_FOLDER/outputs.json.new"
mv "$BUILD_FOLDER/outputs.json.new" "$BUILD_FOLDER/outputs.json"
