#!/usr/bin/env bash
# Publishes an event about a pod that does not exist, for each served cluster, and waits for the function's answer in its
# log. This proves topic, subscription, push account, function, and its permissions in the cluster. It creates nothing.
#
# Needs BUILD_FOLDER/outputs.json. In a new project, grants need minutes to take effect, and Pub/Sub waits longer after
# each refusal. So a new event is published every minute, and the answer to any of them is enough.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

skip_in_plan_only "sending a test event to each cluster"
topic=$(read_outputs topics workload_events)

publish() {
    local event attributes data
    python3 "$ROOT/infra/build/smoke_event.py" "$1" >"$BUILD_FOLDER/smoke-event"
    { read -r event && read -r attributes && read -r data; } <"$BUILD_FOLDER/smoke-event"
    say "Sending test event $event for $1"
    gcloud pubsub topics publish "$topic" --attribute="$attributes" --message="$data" ||
        fail "the test event cannot be published to $topic"
    events="${events:+$events OR }\"$event\""
}

# The cluster's full name.
ask() {
    local answer
    if ((asked % 6 == 0)); then publish "$1"; fi
    asked=$((asked + 1))
    answer=$(gcloud logging read "jsonPayload.event_id=($events) AND jsonPayload.message=\"nothing is to be done\"" \
        --project="$PROJECT_ID" --freshness=1h --limit=1 --format='value(jsonPayload.message)')
    [ -n "$answer" ]
}

read_outputs clusters >"$BUILD_FOLDER/clusters"
while IFS=$'\t' read -r key project location cluster _ <&3; do
    events="" asked=0 # assumes: grant-delay
    retry 30 10 ask "projects/$project/locations/$location/clusters/$cluster" ||
        fail "the function $NAME-provision did not answer for $cluster ($key); read its log: gcloud functions logs read $NAME-provision --project=$PROJECT_ID --region=$LOCATION"
    say "The function read $cluster and found nothing to do, as expected"
done 3<"$BUILD_FOLDER/clusters"
