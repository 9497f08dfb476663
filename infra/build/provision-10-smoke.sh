#!/usr/bin/env bash
# Publishes one event about a pod that does not exist, to each served cluster, and waits for the function's answer in its
# log: that proves topic, subscription, push account, function, and its rights in the cluster. Nothing is made by it.
#
# Inputs: PROJECT_ID, NAME; needs BUILD_FOLDER/outputs.json. SMOKE_TRIES (default 30) at 10 s. Grants take minutes to be
# effective in a new project; Pub/Sub delivers the event again until they are.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

need PROJECT_ID NAME
topic=$(read_outputs topic)
[ -n "$topic" ] || fail "no topic in $BUILD_FOLDER/outputs.json; run provision-07-terraform.sh"

answered() {
    local found
    found=$(gcloud logging read "jsonPayload.event_id=\"$1\" AND jsonPayload.reason=\"demand_gone\"" \
        --project="$PROJECT_ID" --freshness=1h --limit=1 --format='value(jsonPayload.message)')
    [ -n "$found" ]
}

read_outputs clusters >"$BUILD_FOLDER/clusters"
while IFS=$'\t' read -r key project location cluster <&3; do
    python3 "$ROOT/infra/build/smoke_event.py" "projects/$project/locations/$location/clusters/$cluster" >"$BUILD_FOLDER/smoke-event"
    { read -r event && read -r attributes && read -r data; } <"$BUILD_FOLDER/smoke-event"
    say "Asking about $cluster ($key): event $event"
    gcloud pubsub topics publish "$topic" --attribute="$attributes" --message="$data"
    retry "${SMOKE_TRIES:-30}" 10 answered "$event" ||
        fail "the function $NAME-provision did not answer for $cluster; look at: gcloud functions logs read $NAME-provision --project=$PROJECT_ID --region=$REGION"
    say "The function looked into $cluster and found nothing to do, as it should"
done 3<"$BUILD_FOLDER/clusters"
