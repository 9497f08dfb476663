#!/usr/bin/env bash
# Deletes the repository of the exporter's images, if its description says that the provision build
# made it. A second run changes nothing.
#
# Inputs: PROJECT_ID, REGION; optional NAME.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

need PROJECT_ID REGION NAME
where=(--project="$PROJECT_ID" --location="$REGION" --quiet)
if description=$(gcloud artifacts repositories describe "$NAME-images" "${where[@]}" --format='value(description)' 2>"$BUILD_FOLDER/gone"); then
    if [ "$description" = "$REPOSITORY_MARK" ]; then
        say "Deleting $REPOSITORY"
        gcloud artifacts repositories delete "$NAME-images" "${where[@]}"
    else
        say "Not deleted: $REPOSITORY, because its description is not \"$REPOSITORY_MARK\""
    fi
elif grep -q -i -E 'not found|NOT_FOUND' "$BUILD_FOLDER/gone"; then
    say "$REPOSITORY does not exist"
else
    cat "$BUILD_FOLDER/gone" >&2
    fail "$REPOSITORY cannot be read"
fi
