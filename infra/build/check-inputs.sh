#!/usr/bin/env bash
# Checks all inputs before anything is changed, and prints what the build does.
#
# Always:            PROJECT_ID REGION CLUSTER_NAME
# With CREATE_ENVIRONMENT=true (the default):
#                    ZONE NETWORK_NAME SUBNET_NAME ARTIFACT_REPOSITORY_BUCKET_NAME
# With CREATE_ENVIRONMENT=false, for an existing cluster:
#                    NODE_SERVICE_ACCOUNTS (the accounts that TPU nodes may run as), and optionally
#                    CLUSTER_LOCATION, CLUSTER_PROJECT, ZONE
# Optional:          SERVICES_REGION (of functions and scheduler; default: REGION)
#                    NAME LIMIT_CHIPS NAMESPACE TPU_TYPE NUM_TPU_POOLS NUM_OF_CHIPS
#                    TENSORBOARD_REGION CREATE_TENSORBOARD JOBSET_API_VERSION KUEUE_API_VERSION
#                    TF_STATE_BUCKET TF_STATE_PREFIX TERRAFORM_VARIABLES ALLOW_DELETE PLAN_ONLY
#                    ALERT_EMAIL RUNBOOK_URL FUNCTIONS_ARCHIVE EXPORTER_IMAGE REBUILD_EXPORTER
#                    JOBSET_DIGEST KUEUE_DIGEST
#                    MORE_NAMESPACES QUOTAS IMAGE_REPOSITORY (only with an environment)
# Private only:      CONTROL_PLANE_ACCESS AUTHORIZED_NETWORKS PRIVATE_NODES FUNCTIONS_EGRESS
#                    FUNCTIONS_SUBNET BUILD_WORKER_POOL NETWORK_PROJECT KMS_KEY SERVICES_KMS_KEY
# Only for destroying:  FORCE DELETE_STATE DELETE_ARTIFACTS
# Every input can also be a substitution: _REGION for REGION.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

refuse_unknown_substitutions
need PROJECT_ID REGION CLUSTER_NAME CREATE_ENVIRONMENT CREATE_TENSORBOARD NAME NAMESPACE
need FORCE DELETE_STATE DELETE_ARTIFACTS PLAN_ONLY REBUILD_EXPORTER
allow ALLOW_DELETE ALERT_EMAIL RUNBOOK_URL FUNCTIONS_ARCHIVE EXPORTER_IMAGE
[ -z "$EXPORTER_IMAGE" ] || [ "$REBUILD_EXPORTER" = false ] ||
    fail "EXPORTER_IMAGE: is an image that is not built here (got: $EXPORTER_IMAGE); valid with REBUILD_EXPORTER=true: no value"
need TF_STATE_BUCKET TF_STATE_PREFIX CLUSTER_LOCATION CLUSTER_PROJECT SERVICES_REGION
allow ZONE TPU_TYPE NUM_TPU_POOLS NUM_OF_CHIPS LIMIT_CHIPS TENSORBOARD_REGION TERRAFORM_VARIABLES
allow MORE_NAMESPACES QUOTAS IMAGE_REPOSITORY JOBSET_DIGEST KUEUE_DIGEST
allow JOBSET_API_VERSION KUEUE_API_VERSION NETWORK_NAME SUBNET_NAME ARTIFACT_REPOSITORY_BUCKET_NAME NODE_SERVICE_ACCOUNTS
allow PRIVATE_NODES CONTROL_PLANE_ACCESS AUTHORIZED_NETWORKS FUNCTIONS_EGRESS FUNCTIONS_SUBNET BUILD_WORKER_POOL
allow NETWORK_PROJECT KMS_KEY SERVICES_KMS_KEY
[ -z "$KMS_KEY" ] || [ -n "$SERVICES_KMS_KEY" ] ||
    fail "SERVICES_KMS_KEY: is required with KMS_KEY, because the functions are in $SERVICES_REGION and a key is of one region; valid: projects/PROJECT/locations/$SERVICES_REGION/keyRings/RING/cryptoKeys/NAME"
python3 "$ROOT/infra/build/third_party/versions.py" --check jobset "$JOBSET_API_VERSION" kueue "$KUEUE_API_VERSION"
for product in JOBSET KUEUE; do
    version=${product}_API_VERSION digest=${product}_DIGEST
    [ -z "${!digest}" ] || [[ ${!version} == v* ]] ||
        fail "$digest: is the digest of one release's image, so it needs a version (got: ${!digest}, and no version in $version); valid: set $version too, such as v0.11.1, or leave $digest empty"
done
if [ -n "$TERRAFORM_VARIABLES" ]; then
    [ -f "$ROOT/$TERRAFORM_VARIABLES" ] || fail "TERRAFORM_VARIABLES: the file $TERRAFORM_VARIABLES is not in the source; see also .gcloudignore"
fi
if [ "$CREATE_ENVIRONMENT" = true ]; then
    need ZONE NETWORK_NAME SUBNET_NAME ARTIFACT_REPOSITORY_BUCKET_NAME
    [ "$CLUSTER_PROJECT" = "$PROJECT_ID" ] || fail "CLUSTER_PROJECT: is for CREATE_ENVIRONMENT=false (got: $CLUSTER_PROJECT); valid: no value, because the environment is created in $PROJECT_ID"
    [ "$CLUSTER_LOCATION" = "$REGION" ] || fail "CLUSTER_LOCATION: is for CREATE_ENVIRONMENT=false (got: $CLUSTER_LOCATION); valid: no value, because the environment's cluster is in $REGION"
    python3 "$ROOT/infra/build/render_training.py" check
    say "An environment and its provisioner: cluster $CLUSTER_NAME in $REGION, project $PROJECT_ID, name $NAME"
else
    need NODE_SERVICE_ACCOUNTS
    for name in MORE_NAMESPACES QUOTAS IMAGE_REPOSITORY; do
        [ -z "${!name}" ] || fail "$name: is for CREATE_ENVIRONMENT=true (got: ${!name}); valid: no value, because this cluster's owners make its namespaces, queues and repositories"
    done
    [ -z "$NETWORK_PROJECT" ] || fail "NETWORK_PROJECT: is for the environment's own cluster (got: $NETWORK_PROJECT); valid: no value with CREATE_ENVIRONMENT=false"
    [ -z "$AUTHORIZED_NETWORKS" ] || fail "AUTHORIZED_NETWORKS: is for the environment's own cluster (got: $AUTHORIZED_NETWORKS); valid: no value with CREATE_ENVIRONMENT=false"
    say "A provisioner beside the cluster $CLUSTER_NAME in $CLUSTER_LOCATION of $CLUSTER_PROJECT: project $PROJECT_ID, name $NAME"
fi
say "Terraform's state: gs://$TF_STATE_BUCKET/$TF_STATE_PREFIX"
