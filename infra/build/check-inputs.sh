#!/usr/bin/env bash
# Checks all inputs before anything is changed, and says what will be done.
#
# Always:            PROJECT_ID REGION CLUSTER_NAME
# With CREATE_ENVIRONMENT=true (the default):
#                    ZONE NETWORK_NAME SUBNET_NAME ARTIFACT_REPOSITORY_BUCKET_NAME
# With CREATE_ENVIRONMENT=false, for a cluster that is there:
#                    NODE_SERVICE_ACCOUNTS (which accounts the TPU nodes may run as), optionally CLUSTER_LOCATION,
#                    CLUSTER_PROJECT, ZONE
# Optional:          NAME MODE LIMIT_CHIPS NAMESPACE TPU_TYPE NUM_TPU_POOLS NUM_OF_CHIPS TENSORBOARD_REGION
#                    CREATE_TENSORBOARD JOBSET_API_VERSION KUEUE_API_VERSION TF_STATE_BUCKET TF_STATE_PREFIX
#                    TERRAFORM_VARIABLES FORCE DELETE_STATE
# Every input may also be given as a substitution: _REGION for REGION.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

refuse_unknown_substitutions
need PROJECT_ID REGION CLUSTER_NAME CREATE_ENVIRONMENT CREATE_TENSORBOARD NAME MODE FORCE DELETE_STATE NAMESPACE
need TF_STATE_BUCKET TF_STATE_PREFIX CLUSTER_LOCATION CLUSTER_PROJECT
allow ZONE TPU_TYPE NUM_TPU_POOLS NUM_OF_CHIPS LIMIT_CHIPS TENSORBOARD_REGION TERRAFORM_VARIABLES
allow JOBSET_API_VERSION KUEUE_API_VERSION NETWORK_NAME SUBNET_NAME ARTIFACT_REPOSITORY_BUCKET_NAME NODE_SERVICE_ACCOUNTS
python3 "$ROOT/infra/build/third_party/versions.py" --check jobset "$JOBSET_API_VERSION" kueue "$KUEUE_API_VERSION"
if [ -n "$TERRAFORM_VARIABLES" ]; then
    [ -f "$ROOT/$TERRAFORM_VARIABLES" ] || fail "TERRAFORM_VARIABLES: $TERRAFORM_VARIABLES is not in the source; see also .gcloudignore"
fi
if [ "$CREATE_ENVIRONMENT" = true ]; then
    need ZONE NETWORK_NAME SUBNET_NAME ARTIFACT_REPOSITORY_BUCKET_NAME
    [ "$CLUSTER_PROJECT" = "$PROJECT_ID" ] || fail "CLUSTER_PROJECT: the environment is made in $PROJECT_ID; leave it out, or set CREATE_ENVIRONMENT=false"
    [ "$CLUSTER_LOCATION" = "$REGION" ] || fail "CLUSTER_LOCATION: the environment's cluster is regional, in $REGION; leave it out, or set CREATE_ENVIRONMENT=false"
    say "An environment and its provisioner: cluster $CLUSTER_NAME in $REGION, project $PROJECT_ID, name $NAME, mode $MODE"
else
    need NODE_SERVICE_ACCOUNTS
    say "A provisioner beside the cluster $CLUSTER_NAME in $CLUSTER_LOCATION of $CLUSTER_PROJECT: project $PROJECT_ID, name $NAME, mode $MODE"
fi
say "Terraform's state: gs://$TF_STATE_BUCKET/$TF_STATE_PREFIX"
