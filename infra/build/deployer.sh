#!/usr/bin/env bash
# Creates the account that the builds run as, NAME-deployer, with the roles that they need and
# without the basic roles (owner, editor, viewer). A person who may grant roles runs it once. A
# second run changes nothing.
#
# Inputs: optional PROJECT_ID (default: gcloud's own), NAME, CREATE_ENVIRONMENT, CREATE_TENSORBOARD, CLUSTER_PROJECT (the
# roles on the clusters are granted there), NODE_SERVICE_ACCOUNTS (those of other projects get a grant
# of their own), FUNCTIONS_EGRESS and FUNCTIONS_SUBNET (the subnet is read). The account may change
# grants of the project, because Terraform does; so it has much power: let few people start builds.
# docs/rights.md explains each role. Neither build deletes the account; docs/deploy.md shows how to.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

if [ -z "$PROJECT_ID" ]; then
    PROJECT_ID=$(gcloud config get-value project --quiet)
    default_inputs
fi
need PROJECT_ID NAME CLUSTER_PROJECT CREATE_ENVIRONMENT CREATE_TENSORBOARD
allow NODE_SERVICE_ACCOUNTS FUNCTIONS_EGRESS FUNCTIONS_SUBNET
account=$NAME-deployer@$PROJECT_ID.iam.gserviceaccount.com
roles=(
    artifactregistry.admin              # the repository of the exporter's image, and that of the functions' images
    cloudfunctions.admin run.admin      # the functions, and who may call them
    cloudscheduler.admin                # the functions' ticks
    iam.roleAdmin                       # the functions' custom role
    iam.serviceAccountAdmin             # the accounts
    iam.serviceAccountUser              # giving them to functions, nodes and pushes
    logging.configWriter                # log-based metrics, and the sink of finished operations
    logging.logWriter logging.viewer    # the build's own log, and the functions' in the smoke test
    monitoring.editor                   # dashboard, alerts and objective
    pubsub.admin                        # topics and subscriptions
    resourcemanager.projectIamAdmin     # grants
    serviceusage.serviceUsageAdmin      # enabling APIs
    storage.admin                       # the state's bucket, the functions' source, the artifacts
)
cluster_roles=(container.admin iam.roleAdmin logging.configWriter resourcemanager.projectIamAdmin)
# What a cluster of another project needs: its exporter's metrics become visible here.
across_roles=(monitoring.metricsScopesAdmin)
# Workload policies of tpu7x slices. No role of Google's has these alone.
policy_permissions=compute.resourcePolicies.create,compute.resourcePolicies.delete,compute.resourcePolicies.get,compute.resourcePolicies.list
# Terraform's provider reads the instance groups of each pool with its cluster. container.admin does not allow it;
# compute.networkAdmin, which an environment needs, does.
group_permissions=compute.instanceGroupManagers.get,compute.instanceGroupManagers.list
[ "$CREATE_ENVIRONMENT" = false ] || roles+=(compute.networkAdmin)
[ "$CREATE_TENSORBOARD" = false ] || roles+=(aiplatform.admin)

# Cloud Build itself needs these, and the first step of a build, which enables all others.
say "Enabling the APIs that a build needs before its first step in $PROJECT_ID"
gcloud services enable --project="$PROJECT_ID" --quiet cloudbuild.googleapis.com cloudresourcemanager.googleapis.com \
    iam.googleapis.com serviceusage.googleapis.com storage.googleapis.com

if ! gcloud iam service-accounts describe "$account" --project="$PROJECT_ID" --format='value(email)' >/dev/null 2>"$BUILD_FOLDER/gone"; then
    grep -q -i -E 'not found|NOT_FOUND|unknown service account' "$BUILD_FOLDER/gone" || {
        cat "$BUILD_FOLDER/gone" >&2
        fail "$account cannot be read: does this account have roles/iam.serviceAccountAdmin?"
    }
    say "Creating $account"
    gcloud iam service-accounts create "$NAME-deployer" --project="$PROJECT_ID" --display-name="Builds of $NAME"
fi
grant() {
    gcloud projects add-iam-policy-binding "$1" --member="serviceAccount:$account" --role="$2" \
        --condition=None --format=none --quiet
}
grant_all() {
    local project=$1 role
    shift
    for role in "$@"; do
        say "$project: roles/$role"
        # An account that was just made may not be known for some seconds.
        retry 10 5 grant "$project" "roles/$role"
    done
}
grant_account() {
    gcloud iam service-accounts add-iam-policy-binding "$1" --member="serviceAccount:$account" \
        --role=roles/iam.serviceAccountAdmin --project="$2" --condition=None --format=none --quiet
}
grant_all "$PROJECT_ID" "${roles[@]}"
grant_all "$CLUSTER_PROJECT" "${cluster_roles[@]}"
if [ "$CLUSTER_PROJECT" != "$PROJECT_ID" ]; then
    grant_all "$PROJECT_ID" "${across_roles[@]}"
    grant_all "$CLUSTER_PROJECT" "${across_roles[@]}"
fi
# A role of our own: the project, the end of its id, and its permissions. A role of an earlier version gets the permissions
# of this one. The two kinds have different ids: a deployment of the same name in another project may serve a cluster
# here, and must not change the role of the first one. Google restores a deleted role for 7 days, and its id is free
# again after 37 (https://cloud.google.com/iam/docs/creating-custom-roles).
grant_own() {
    local role=${NAME//-/_}_$2 act=create deleted
    if deleted=$(gcloud iam roles describe "$role" --project="$1" --format='value(deleted)' 2>/dev/null); then act=update; fi
    if [ "${deleted,,}" = true ]; then
        say "$1: $role was deleted, so it is restored"
        change_own undelete "$1" "$role"
    fi
    change_own "$act" "$1" "$role" --title="Builds of $NAME" --permissions="$3"
    say "$1: $role"
    retry 10 5 grant "$1" "projects/$1/roles/$role"
}
# An act of gcloud, the project, the role, and flags.
change_own() {
    local act=$1 project=$2 role=$3
    shift 3
    if gcloud iam roles "$act" "$role" --project="$project" "$@" --format=none --quiet 2>"$BUILD_FOLDER/gone"; then return 0; fi
    cat "$BUILD_FOLDER/gone" >&2
    if [ "$act" = undelete ] || grep -q -i 'marked for deletion' "$BUILD_FOLDER/gone"; then
        fail "NAME: the role $role of $project was deleted, and Google restores a role only for 7 days (got: $NAME). Its id is free again 37 days after the deletion; valid until then: another NAME"
    fi
    fail "the role $role of $project cannot be changed ($act)"
}
[ "$CREATE_ENVIRONMENT" = false ] || grant_own "$PROJECT_ID" deployer "$policy_permissions"
if [ "$CREATE_ENVIRONMENT" = false ] || [ "$CLUSTER_PROJECT" != "$PROJECT_ID" ]; then
    grant_own "$CLUSTER_PROJECT" deployer_groups "$group_permissions"
fi
# The functions' subnet is checked before they use it. By default it is that of a cluster.
if [ "${FUNCTIONS_EGRESS:-none}" != none ]; then
    home=${FUNCTIONS_SUBNET:-projects/$CLUSTER_PROJECT}
    home=${home#projects/}
    grant_all "${home%%/*}" compute.networkViewer
fi
# The roles above are enough for node accounts of this project.
for node in ${NODE_SERVICE_ACCOUNTS//,/ }; do
    home=${node#*@}
    home=${home%%.*}
    [ "$home" != "$PROJECT_ID" ] || continue
    say "$node: roles/iam.serviceAccountAdmin"
    retry 10 5 grant_account "$node" "$home"
done
say "Run builds with: --service-account=projects/$PROJECT_ID/serviceAccounts/$account"
