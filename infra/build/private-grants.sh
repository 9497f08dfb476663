#!/usr/bin/env bash
# Lets Google's own service accounts of PROJECT_ID use your key and your shared subnet, so that the
# build itself needs no right to change either. A person who may grant roles on these runs it once,
# after deployer.sh and before the first build. A second run changes nothing.
#
# Inputs: PROJECT_ID; optional NAME; KMS_KEY (cluster, disks, buckets, images) and SERVICES_KMS_KEY
# (functions and topics), CREATE_TENSORBOARD; NETWORK_PROJECT with REGION and SUBNET_NAME (the
# cluster's subnet), FUNCTIONS_SUBNET. docs/private.md explains them, and docs/rights.md has the list.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

need PROJECT_ID NAME CREATE_TENSORBOARD
allow KMS_KEY SERVICES_KMS_KEY NETWORK_PROJECT FUNCTIONS_SUBNET
[ -n "$KMS_KEY$SERVICES_KMS_KEY$NETWORK_PROJECT$FUNCTIONS_SUBNET" ] ||
    fail "KMS_KEY: one of KMS_KEY, SERVICES_KMS_KEY, NETWORK_PROJECT and FUNCTIONS_SUBNET is required, because without them there is nothing to grant"
number=$(gcloud projects describe "$PROJECT_ID" --format='value(projectNumber)')
[ -n "$number" ] || fail "PROJECT_ID: the number of $PROJECT_ID cannot be read"

# The account of a service, which is made if the project never used the service.
make_agent() {
    case $1 in
        storage) gcloud storage service-agent --project="$PROJECT_ID" >/dev/null ;;
        cloudservices | compute) ;; # these exist where Compute Engine is enabled
        *) retry 5 5 gcloud beta services identity create --service="$1.googleapis.com" --project="$PROJECT_ID" --quiet >/dev/null ;;
    esac || fail "the account of $1.googleapis.com in $PROJECT_ID cannot be made: is its API enabled?"
}

agent() {
    case $1 in
        aiplatform | artifactregistry | eventarc | pubsub) printf 'service-%s@gcp-sa-%s.iam.gserviceaccount.com' "$number" "$1" ;;
        cloudfunctions) printf 'service-%s@gcf-admin-robot.iam.gserviceaccount.com' "$number" ;;
        cloudservices) printf '%s@cloudservices.gserviceaccount.com' "$number" ;;
        compute) printf 'service-%s@compute-system.iam.gserviceaccount.com' "$number" ;;
        container) printf 'service-%s@container-engine-robot.iam.gserviceaccount.com' "$number" ;;
        run) printf 'service-%s@serverless-robot-prod.iam.gserviceaccount.com' "$number" ;;
        storage) printf 'service-%s@gs-project-accounts.iam.gserviceaccount.com' "$number" ;;
    esac
}

bind() {
    gcloud "$@" --condition=None --format=none --quiet
}

# The key, then the services.
grant_key() {
    local key=$1 service account
    shift
    for service in "$@"; do
        make_agent "$service"
        account=$(agent "$service")
        say "$key: $account"
        retry 10 5 bind kms keys add-iam-policy-binding "$key" --member="serviceAccount:$account" \
            --role=roles/cloudkms.cryptoKeyEncrypterDecrypter
    done
}

# The subnet's full name, then the account.
grant_subnet() {
    local project region name
    IFS=/ read -r _ project _ region _ name <<<"$1"
    say "$1: $2"
    retry 10 5 bind compute networks subnets add-iam-policy-binding "$name" --project="$project" --region="$region" \
        --member="serviceAccount:$2" --role=roles/compute.networkUser
}

grant_host() {
    say "$1: $2, roles/$3"
    retry 10 5 bind projects add-iam-policy-binding "$1" --member="serviceAccount:$2" --role="roles/$3"
}

[ -z "$KMS_KEY" ] || grant_key "$KMS_KEY" artifactregistry compute container storage
[ -z "$KMS_KEY" ] || [ "$CREATE_TENSORBOARD" = false ] || grant_key "$KMS_KEY" aiplatform
[ -z "$SERVICES_KMS_KEY" ] || grant_key "$SERVICES_KMS_KEY" artifactregistry cloudfunctions eventarc pubsub run storage
if [ -n "$NETWORK_PROJECT" ]; then
    need REGION SUBNET_NAME
    make_agent container
    subnet=projects/$NETWORK_PROJECT/regions/$REGION/subnetworks/$SUBNET_NAME
    grant_subnet "$subnet" "$(agent container)"
    grant_subnet "$subnet" "$(agent cloudservices)"
    grant_subnet "$subnet" "$NAME-deployer@$PROJECT_ID.iam.gserviceaccount.com"
    grant_host "$NETWORK_PROJECT" "$(agent container)" container.hostServiceAgentUser
    FUNCTIONS_SUBNET=${FUNCTIONS_SUBNET:-$subnet}
fi
if [ -n "$FUNCTIONS_SUBNET" ]; then
    make_agent run
    home=${FUNCTIONS_SUBNET#projects/}
    grant_subnet "$FUNCTIONS_SUBNET" "$(agent run)"
    grant_host "${home%%/*}" "$(agent run)" compute.networkViewer
fi
