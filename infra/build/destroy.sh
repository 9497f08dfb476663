#!/usr/bin/env bash
# Destroys what Terraform made, and keeps the bucket of artifacts and the repository of the users' images unless
# _DELETE_ARTIFACTS=true. What is kept stays in the state, so the next provision build goes on with it. With
# _DELETE_STATE=true the state goes too, once nothing is in it. A second run continues where the first one ended.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

check _DELETE_ARTIFACTS "${_DELETE_ARTIFACTS:-false}" '^(true|false)$' "true or false"
check _DELETE_STATE "${_DELETE_STATE:-false}" '^(true|false)$' "true or false"
environment='module.environment[0]'
kept=("$environment.google_storage_bucket.artifacts" "$environment.google_artifact_registry_repository.images[0]")
[ "${_DELETE_ARTIFACTS:-false}" = false ] || kept=()

open_state
read_inputs
terraform_here state list | grep -v -E '(^|\.)data\.' >"$BUILD_FOLDER/resources" || true
# What is left out is neither destroyed nor forgotten.
targets=()
while IFS= read -r address; do
    [[ " ${kept[*]} " == *" $address "* ]] && say "Kept: $address" && continue
    targets+=(-target="$address")
done <"$BUILD_FOLDER/resources"

destroy() {
    terraform_here destroy -auto-approve -lock-timeout="${LOCK_TIMEOUT:-20m}" "${VARIABLES[@]}" "$@" "${targets[@]}" 2>&1 |
        tee "$BUILD_FOLDER/destroy.log"
}

if [ "${#targets[@]}" -gt 0 ]; then
    if grep -q -F "$environment.google_container_cluster.this" "$BUILD_FOLDER/resources"; then
        say "Lifting the cluster's deletion protection"
        terraform_here apply -auto-approve -lock-timeout="${LOCK_TIMEOUT:-20m}" "${VARIABLES[@]}" -var=deletion_protection=false \
            -target="$environment.google_container_cluster.this"
    fi
    if [ "${_DELETE_ARTIFACTS:-false}" = true ]; then
        bucket=$(terraform_here output -json environment | python3 -c 'import json, sys; print((json.load(sys.stdin) or {}).get("bucket_url") or "")') || bucket=
        [ -z "$bucket" ] || gcloud storage rm --recursive --all-versions "$bucket/**" --quiet || say "Nothing was in $bucket"
    fi
    if ! destroy -var=deletion_protection=false; then
        # A served cluster that is gone cannot be read, and need not be.
        if ! grep -i 'not found\|404' "$BUILD_FOLDER/destroy.log" | grep -q -F 'data.google_container_cluster.served'; then
            fail "Terraform failed; correct what it says above, then run this build again"
        fi
        say "A served cluster is gone, so Terraform goes on without reading it"
        destroy -var=deletion_protection=false -refresh=false
    fi
fi
if [ "${_DELETE_STATE:-false}" = true ]; then
    left=$(terraform_here state list | grep -v -E '(^|\.)data\.' || true)
    [ -z "$left" ] || fail "the state is kept, because it still has: ${left//$'\n'/, }. To delete these too, set _DELETE_ARTIFACTS=true"
    say "Deleting $PLACE"
    gcloud storage rm --recursive --all-versions "$PLACE/**" --quiet || say "Nothing was in $PLACE"
fi
