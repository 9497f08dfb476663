#!/usr/bin/env bash
# Makes the bucket of Terraform's state if it is not there: versioned, uniform access, never public. Again: no change.
#
# Inputs: PROJECT_ID, REGION; optional TF_STATE_BUCKET (default: PROJECT_ID-NAME-state), NAME. A bucket that is there
# already is used as it is, but must be versioned: state that was overwritten by mistake can then be had back.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

need PROJECT_ID REGION TF_STATE_BUCKET
bucket=gs://$TF_STATE_BUCKET
if gcloud storage buckets describe "$bucket" --project="$PROJECT_ID" --format='value(name)' >/dev/null 2>"$BUILD_FOLDER/bucket-error"; then
    say "The state bucket $bucket is there"
elif grep -q -i -E 'not found|404' "$BUILD_FOLDER/bucket-error"; then
    say "Making the state bucket $bucket"
    gcloud storage buckets create "$bucket" --project="$PROJECT_ID" --location="$REGION" \
        --uniform-bucket-level-access --public-access-prevention --quiet
else # forbidden, or no answer: it may be somebody else's
    cat "$BUILD_FOLDER/bucket-error" >&2
    fail "TF_STATE_BUCKET: $TF_STATE_BUCKET cannot be looked at; if it belongs to somebody else, choose another name"
fi
# Of a build that was ended between the two, too.
gcloud storage buckets update "$bucket" --versioning --quiet
