#!/usr/bin/env bash
# Deletes the state of this deployment and its kept functions, with all their versions, and the bucket
# if nothing else is in it: only with DELETE_STATE=true. A second run changes nothing.
#
# Inputs: PROJECT_ID, REGION, DELETE_STATE; optional TF_STATE_BUCKET, TF_STATE_PREFIX, NAME. Refuses
# while the state still has resources: without the state, the resources that are left are unknown.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

need PROJECT_ID TF_STATE_BUCKET TF_STATE_PREFIX DELETE_STATE
bucket=gs://$TF_STATE_BUCKET
if [ "$DELETE_STATE" = false ]; then
    say "Kept: $bucket/$TF_STATE_PREFIX (delete it with DELETE_STATE=true)"
    exit 0
fi
if [ -f "$BUILD_FOLDER/no-state" ]; then
    say "$bucket does not exist"
    exit 0
fi
if ! gcloud storage buckets describe "$bucket" --format='value(name)' >/dev/null 2>"$BUILD_FOLDER/gone"; then
    cat "$BUILD_FOLDER/gone" >&2
    grep -q -i -E 'not found|404' "$BUILD_FOLDER/gone" || fail "$bucket cannot be read"
    say "$bucket does not exist"
    exit 0
fi
left=$(terraform_here state list) || fail "the state cannot be read, so it is kept"
[ -z "$left" ] || fail "the state is kept, because it still has: ${left//$'\n'/, }"
# Only what the builds of this deployment put there: the folder may have those of other deployments in it.
for name in default.tfstate default.tflock unfinished-build inputs 'functions/functions-*.zip'; do
    if holds "$bucket/$TF_STATE_PREFIX/$name"; then
        say "Deleting $bucket/$TF_STATE_PREFIX/$name"
        gcloud storage rm --all-versions "$bucket/$TF_STATE_PREFIX/$name" --quiet
    fi
done
if holds "$bucket/**"; then
    say "Kept: $bucket, which contains other objects"
else
    gcloud storage buckets delete "$bucket" --quiet
fi
