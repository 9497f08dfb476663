# shellcheck shell=bash
# What the scripts of both builds share. They take inputs from the environment only: Cloud Build sets PROJECT_ID, LOCATION
# (the region in which the build runs) and every substitution. By hand, set them too. Nothing here changes anything
# outside BUILD_FOLDER.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# Of the public "TPU training workloads on GKE" environment, by its names, and then our own.
PUBLIC=(TF_STATE_BUCKET TF_STATE_PREFIX REGION TENSORBOARD_REGION ZONE ARTIFACT_REPOSITORY_BUCKET_NAME NETWORK_NAME SUBNET_NAME
    CLUSTER_NAME NAMESPACE TPU_TYPE NUM_TPU_POOLS NUM_OF_CHIPS JOBSET_API_VERSION KUEUE_API_VERSION)
OWN=(NAME EXPORTER_IMAGE PLAN_ONLY ALLOW FORCE DELETE_STATE DELETE_ARTIFACTS)

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

say() {
    printf '%s\n' "$*"
}

# The name of an input, its value, what it must look like, and that in words.
check() {
    [[ $2 =~ $3 ]] || fail "$1: is not valid (got: '$2'); valid: $4"
}

# Try a command again that can fail after a create: at most TIMES, PAUSE seconds apart.
retry() {
    local times=$1 pause=${RETRY_PAUSE_SECONDS:-$2} attempt
    shift 2
    for ((attempt = 1; ; attempt++)); do
        if "$@"; then return 0; fi
        [ "$attempt" -lt "$times" ] || return 1
        say "Attempt $attempt of $times failed; the next one is in $pause s"
        sleep "$pause"
    done
}

# With _PLAN_ONLY=true, a script that changes something ends here; the argument says what it would do.
skip_in_plan_only() {
    [ "${_PLAN_ONLY:-false}" = true ] || return 0
    say "Only planned: $1"
    exit 0
}

# Cloud Build accepts a misspelt substitution; its own of pull requests begin with an underscore, too.
refuse_unknown_substitutions() {
    local name names=" ${PUBLIC[*]} ${OWN[*]} HEAD_BRANCH BASE_BRANCH HEAD_REPO_URL PR_NUMBER "
    while IFS= read -r name; do
        [[ $names == *" ${name#_} "* ]] || fail "$name: is not a substitution; valid: ${PUBLIC[*]/#/_} ${OWN[*]/#/_}"
    done < <(compgen -e | grep -E '^_[A-Z][A-Z0-9_]*$' || true)
}

terraform_here() {
    TF_IN_AUTOMATION=1 TF_INPUT=0 TF_DATA_DIR=$BUILD_FOLDER/terraform terraform -chdir="$ROOT/infra/terraform" "$@"
}

# The state and, beside it, the inputs of the last build that applied.
open_state() {
    gcloud storage buckets describe "gs://$STATE_BUCKET" --format='value(name)' --quiet >/dev/null ||
        fail "gs://$STATE_BUCKET, the bucket of Terraform's state, cannot be read. If this project was never prepared, an owner runs infra/bootstrap.sh $LOCATION first"
    terraform_here init -reconfigure -lockfile=readonly -backend-config="bucket=$STATE_BUCKET" -backend-config="prefix=$STATE_PREFIX"
}

# Take the inputs: deployment.tfvars of the source, or the kept one; and the substitutions of this build over the kept ones.
read_inputs() {
    mkdir -p "$BUILD_FOLDER/kept" "$BUILD_FOLDER/inputs"
    local name
    for name in deployment.tfvars substitutions.json; do
        rm -f "$BUILD_FOLDER/kept/$name"
        if ! gcloud storage cp "$PLACE/inputs/$name" "$BUILD_FOLDER/kept/$name" --quiet 2>"$BUILD_FOLDER/gone"; then
            grep -q -i 'matched no objects' "$BUILD_FOLDER/gone" || { cat "$BUILD_FOLDER/gone" >&2 && fail "$PLACE/inputs/$name cannot be read"; }
            : >"$BUILD_FOLDER/kept/$name"
        fi
    done
    if [ -f "$ROOT/deployment.tfvars" ]; then
        cp "$ROOT/deployment.tfvars" "$BUILD_FOLDER/inputs/deployment.tfvars"
    else
        say "The source has no deployment.tfvars, so that of the last build is taken"
        cp "$BUILD_FOLDER/kept/deployment.tfvars" "$BUILD_FOLDER/inputs/deployment.tfvars"
    fi
    python3 "$ROOT/infra/build/substitutions.py" "$BUILD_FOLDER/kept/substitutions.json" "${PUBLIC[@]:2}" \
        >"$BUILD_FOLDER/inputs/substitutions.json"
    # shellcheck disable=SC2034 # of terraform.sh and destroy.sh
    VARIABLES=(-var-file="$BUILD_FOLDER/inputs/deployment.tfvars" -var-file="$BUILD_FOLDER/inputs/substitutions.json"
        -var=project_id="$PROJECT_ID" -var=name="$NAME" -var=services_region="$LOCATION")
}

# One output of the deployment as lines of text; see outputs.py.
read_outputs() {
    python3 "$ROOT/infra/build/outputs.py" "$BUILD_FOLDER/outputs.json" "$@"
}

# Point kubectl at a served cluster: key, project, location, name, and the flag for its endpoint.
choose_cluster() {
    export KUBECONFIG=$BUILD_FOLDER/kubeconfig-$1
    gcloud container clusters get-credentials "$4" --location="$3" --project="$2" "$5" --quiet
}

# Whether the chosen cluster's exporter is of another deployment; its topic goes to TOPIC.
serves_another() {
    TOPIC=$(kubectl --namespace=tpu-provisioner get deployment tpu-provisioner-exporter --ignore-not-found --request-timeout=30s \
        --output='jsonpath={.spec.template.spec.containers[*].env[?(@.name=="TPU_PROVISIONER_TOPIC")].value}') ||
        fail "whether another deployment serves the cluster cannot be read"
    [ -n "$TOPIC" ] && [ "$TOPIC" != "projects/$PROJECT_ID/topics/$NAME-workload-events" ]
}

NAME=${_NAME:-tpu-provisioner}
check PROJECT_ID "${PROJECT_ID:-}" '^[a-z][-a-z0-9]{4,28}[a-z0-9]$' "the id of a project"
check LOCATION "${LOCATION:-}" '^[a-z]+-[a-z]+[0-9]+$' "the region of the build, such as us-central1: gcloud builds submit --region"
check _NAME "$NAME" '^[a-z]([-a-z0-9]{0,18}[a-z0-9])?$' "1 to 20 lower-case letters, digits and hyphens, beginning with a letter"
refuse_unknown_substitutions
STATE_BUCKET=${_TF_STATE_BUCKET:-$PROJECT_ID-$NAME-state}
STATE_PREFIX=${_TF_STATE_PREFIX:-$NAME}
PLACE=gs://$STATE_BUCKET/$STATE_PREFIX
# shellcheck disable=SC2034 # of image.sh
REPOSITORY=$LOCATION-docker.pkg.dev/$PROJECT_ID/$NAME-images
BUILD_FOLDER=${BUILD_FOLDER:-$ROOT/build/deploy}
mkdir -p "$BUILD_FOLDER"
BUILD_FOLDER=$(cd "$BUILD_FOLDER" && pwd) # Terraform runs in another folder
PATH=$PATH:$ROOT/build/bin                # programs in exact versions
