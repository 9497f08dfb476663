#!/usr/bin/env bash
# Stops the functions, before their rights in the clusters go: pauses the ticks, and removes the
# functions' addresses from their subscriptions. Terraform deletes all of them later. A second run
# changes nothing.
#
# Inputs: PROJECT_ID; needs BUILD_FOLDER/outputs.json.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

need PROJECT_ID
# Run a command that may find its object gone.
unless_gone() {
    if "$@" 2>"$BUILD_FOLDER/gone"; then return 0; fi
    cat "$BUILD_FOLDER/gone" >&2
    grep -q -i -E 'not found|NOT_FOUND|not exist' "$BUILD_FOLDER/gone" || fail "could not run: $*"
    say "It does not exist any more"
}

jobs=$(read_outputs scheduler-jobs)
subscriptions=$(read_outputs subscriptions)
for job in $jobs; do
    say "Pausing $job"
    state=$(gcloud scheduler jobs describe "$job" --format='value(state)' 2>"$BUILD_FOLDER/gone") || true
    if [ "$state" != PAUSED ]; then unless_gone gcloud scheduler jobs pause "$job" --quiet; fi
done
for subscription in $subscriptions; do
    say "Detaching $subscription from its function"
    unless_gone gcloud pubsub subscriptions modify-push-config "$subscription" --push-endpoint="" --quiet
done
