#!/usr/bin/env bash
# Creates the account that the builds run as, NAME-deployer, with the roles that they need and
# without the basic roles (owner, editor, viewer). A person who may grant roles runs it once. A
# second run changes nothing.
#
# Inputs: PROJECT_ID; optional NAME, CREATE_ENVIRONMENT, CREATE_TENSORBOARD, CLUSTER_PROJECT (the
# roles on the clusters are granted there). The account may change grants of the project, because
# Terraform does; so it has much power: let few people start builds. Neither build deletes it;
# docs/deploy.md shows how to.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

need PROJECT_ID NAME CLUSTER_PROJECT CREATE_ENVIRONMENT CREATE_TENSORBOARD
account=$NAME-deployer@$PROJECT_ID.iam.gserviceaccount.com
roles=(
    artifactregistry.admin              # the repository of the exporter's image, and that of the functions' images
    cloudfunctions.admin run.admin      # the functions, and who may call them
    cloudscheduler.admin                # the sweep's schedule
    iam.roleAdmin                       # the functions' custom role
    iam.serviceAccountAdmin             # the accounts
    iam.serviceAccountUser              # giving them to functions, nodes and pushes
    logging.configWriter                # log-based metrics, and the sink of finished operations
    logging.logWriter logging.viewer    # the build's own log, and the functions' in the smoke test
    monitoring.editor                   # dashboard and alerts
    pubsub.admin                        # topics and subscriptions
    resourcemanager.projectIamAdmin     # grants
    serviceusage.serviceUsageAdmin      # enabling APIs
    storage.admin                       # the state's bucket, the functions' source, the artifacts
)
cluster_roles=(container.admin iam.roleAdmin logging.configWriter resourcemanager.projectIamAdmin)
[ "$CREATE_ENVIRONMENT" = false ] || roles+=(compute.networkAdmin)
[ "$CREATE_TENSORBOARD" = false ] || roles+=(aiplatform.admin)

if ! gcloud iam service-accounts describe "$account" --project="$PROJECT_ID" --format='value(email)' >/dev/null 2>"$BUILD_FOLDER/gone"; then
    grep -q -i -E 'not found|NOT_FOUND|unknown service account' "$BUILD_FOLDER/gone" || {
        cat "$BUILD_FOLDER/gone" >&2
        fail "$account cannot be read: does this account have roles/iam.serviceAccountAdmin?"
    }
    say "Creating $account"
    gcloud iam service-accounts create "$NAME-deployer" --project="$PROJECT_ID" --display-name="Builds of $NAME"
fi
grant() {
    gcloud projects add-iam-policy-binding "$1" --member="serviceAccount:$account" --role="roles/$2" \
        --condition=None --format=none --quiet
}
for role in "${roles[@]}"; do
    say "$PROJECT_ID: roles/$role"
    # An account that was just made may not be known for some seconds.
    retry 10 5 grant "$PROJECT_ID" "$role"
done
for role in "${cluster_roles[@]}"; do
    say "$CLUSTER_PROJECT: roles/$role"
    retry 10 5 grant "$CLUSTER_PROJECT" "$role"
done
say "Run builds with: --service-account=projects/$PROJECT_ID/serviceAccounts/$account"
