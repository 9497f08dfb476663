#!/usr/bin/env bash
# Makes the repository of the exporter's image, NAME-images in Artifact Registry, if it is not there. Again: no change.
#
# Inputs: PROJECT_ID, REGION; optional NAME. It is not Terraform's, because the image must be there before the cluster
# asks for it, and Terraform's run needs nothing of it.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

need PROJECT_ID REGION NAME
where=(--project="$PROJECT_ID" --location="$REGION" --quiet)
if gcloud artifacts repositories describe "$NAME-images" "${where[@]}" --format='value(name)' >/dev/null 2>&1; then
    say "The repository $REPOSITORY is there"
else
    say "Making the repository $REPOSITORY"
    gcloud artifacts repositories create "$NAME-images" "${where[@]}" --repository-format=docker \
        --description="Images of $NAME, made by its build"
fi
