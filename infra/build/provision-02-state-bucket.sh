#!/usr/bin/env bash
# Creates the bucket of Terraform's state if it does not exist: versioned, uniform access, never
# public. A second run changes nothing. For a rollback, it also fetches an earlier archive of the
# functions, which that bucket keeps.
#
# Inputs: PROJECT_ID, REGION; optional TF_STATE_BUCKET (default: PROJECT_ID-NAME-state), NAME,
# FUNCTIONS_ARCHIVE, KMS_KEY. An existing bucket is used as it is, but it must be versioned, so that an
# overwritten state can be restored.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

need PROJECT_ID REGION TF_STATE_BUCKET
allow FUNCTIONS_ARCHIVE KMS_KEY
bucket=gs://$TF_STATE_BUCKET
if [ -n "$FUNCTIONS_ARCHIVE" ]; then
    say "Fetching $FUNCTIONS_ARCHIVE"
    gcloud storage cp "$(archives)/$FUNCTIONS_ARCHIVE" "$BUILD_FOLDER/functions-kept.zip" --quiet ||
        fail "FUNCTIONS_ARCHIVE: $FUNCTIONS_ARCHIVE is not kept; list those that are with: gcloud storage ls -l $(archives)/"
fi
skip_in_plan_only "creating the state bucket $bucket if it does not exist"
if gcloud storage buckets describe "$bucket" --project="$PROJECT_ID" --format='value(name)' >/dev/null 2>"$BUILD_FOLDER/bucket-error"; then
    say "The state bucket $bucket exists"
elif grep -q -i -E 'not found|404' "$BUILD_FOLDER/bucket-error"; then
    say "Creating the state bucket $bucket"
    gcloud storage buckets create "$bucket" --project="$PROJECT_ID" --location="$REGION" \
        --uniform-bucket-level-access --public-access-prevention ${KMS_KEY:+--default-encryption-key="$KMS_KEY"} --quiet
else # forbidden, or no answer: the bucket may belong to another project
    cat "$BUILD_FOLDER/bucket-error" >&2
    fail "TF_STATE_BUCKET: $TF_STATE_BUCKET cannot be read; if it belongs to another project, choose another name"
fi
# Of a build that was ended between the two, too.
gcloud storage buckets update "$bucket" --versioning --quiet
