#!/usr/bin/env bash
# Enables the APIs that everything else needs, creates Pub/Sub's service agent, and checks that
# SERVICES_REGION has the services that run there. A second run changes nothing. With PLAN_ONLY=true it
# only checks; where an API is not enabled yet, it cannot, and says so.
#
# Inputs: PROJECT_ID, REGION or SERVICES_REGION; CREATE_TENSORBOARD adds its API. Takes a minute or
# two in a new project. The APIs stay enabled when the deployment is destroyed, because others may
# use them.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

need PROJECT_ID CREATE_TENSORBOARD SERVICES_REGION
# compute: the network, and the size of elastic pools, also of clusters in other projects.
apis=(artifactregistry cloudbuild cloudfunctions cloudresourcemanager cloudscheduler compute container iam iamcredentials
    logging monitoring pubsub run serviceusage storage)
[ "$CREATE_TENSORBOARD" = false ] || apis+=(aiplatform)
if [ "$PLAN_ONLY" = true ]; then
    say "Only planned: enabling ${#apis[@]} APIs in $PROJECT_ID"
else
    say "Enabling ${#apis[@]} APIs in $PROJECT_ID"
    gcloud services enable "${apis[@]/%/.googleapis.com}" --project="$PROJECT_ID" --quiet ||
        fail "the APIs cannot be enabled: the account of this build needs roles/serviceusage.serviceUsageAdmin on $PROJECT_ID"
    # Grants can be given to the agent only once there is one. An API that was just enabled may refuse for some seconds.
    retry 10 5 gcloud beta services identity create --service=pubsub.googleapis.com --project="$PROJECT_ID" --quiet
fi

# Not every region with TPUs has them: us-east5 has no Cloud Scheduler.
check_region() {
    local service=$1 found
    shift
    if ! found=$(gcloud "$@" --project="$PROJECT_ID" --format='value(locationId)' --quiet) || [ -z "$found" ]; then
        say "Not checked: whether $service is in $SERVICES_REGION, because its regions cannot be listed"
    elif ! grep -q -x -F "$SERVICES_REGION" <<<"$found"; then
        fail "SERVICES_REGION: $service is not in $SERVICES_REGION; valid: ${found//$'\n'/, }"
    fi
}
check_region "Cloud Scheduler" scheduler locations list
check_region "Cloud Run functions" functions regions list
check_region "Cloud Run" run regions list
