#!/usr/bin/env bash
# Creates the repository of the exporter's image, NAME-images in Artifact Registry, if it does not
# exist. A second run changes nothing.
#
# Inputs: PROJECT_ID, REGION; optional NAME, KMS_KEY. Terraform does not create it, because the image must
# exist before the cluster pulls it.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

need PROJECT_ID REGION NAME
allow KMS_KEY
skip_in_plan_only "creating the repository $REPOSITORY if it does not exist"
where=(--project="$PROJECT_ID" --location="$REGION" --quiet)
if gcloud artifacts repositories describe "$NAME-images" "${where[@]}" --format='value(name)' >/dev/null 2>&1; then
    say "The repository $REPOSITORY exists"
else
    say "Creating the repository $REPOSITORY"
    gcloud artifacts repositories create "$NAME-images" "${where[@]}" --repository-format=docker \
        ${KMS_KEY:+--kms-key="$KMS_KEY"} \
        --description="$REPOSITORY_MARK"
fi
