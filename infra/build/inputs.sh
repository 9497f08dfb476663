# shellcheck shell=bash
# Every script here reads this file: the inputs, their defaults, and what is valid. Scripts take
# inputs from the environment only: in Cloud Build as substitutions (_REGION), by hand without the
# underscore (REGION). Nothing here changes anything outside BUILD_FOLDER.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# Every input that a build file may pass. Others are refused, so that a misspelt one is noticed.
INPUTS=(TF_STATE_BUCKET TF_STATE_PREFIX REGION SERVICES_REGION TENSORBOARD_REGION ZONE ARTIFACT_REPOSITORY_BUCKET_NAME NETWORK_NAME
    SUBNET_NAME CLUSTER_NAME NAMESPACE TPU_TYPE NUM_TPU_POOLS NUM_OF_CHIPS JOBSET_API_VERSION KUEUE_API_VERSION
    CREATE_ENVIRONMENT CREATE_TENSORBOARD NAME LIMIT_CHIPS CLUSTER_LOCATION CLUSTER_PROJECT NODE_SERVICE_ACCOUNTS
    TERRAFORM_VARIABLES FORCE DELETE_STATE DELETE_ARTIFACTS ALLOW_DELETE PLAN_ONLY ALERT_EMAIL RUNBOOK_URL
    FUNCTIONS_ARCHIVE EXPORTER_IMAGE REBUILD_EXPORTER MORE_NAMESPACES QUOTAS IMAGE_REPOSITORY
    JOBSET_DIGEST KUEUE_DIGEST
    CONTROL_PLANE_ACCESS AUTHORIZED_NETWORKS PRIVATE_NODES FUNCTIONS_EGRESS FUNCTIONS_SUBNET BUILD_WORKER_POOL
    NETWORK_PROJECT KMS_KEY SERVICES_KMS_KEY)

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

say() {
    printf '%s\n' "$*"
}

# The comment at the top of the script is its help.
answer_help() {
    case "${1:-}" in
        "") ;;
        -h | --help)
            sed -n '2,/^# shellcheck/{/^# shellcheck/!s/^# \{0,1\}//p}' "$0"
            exit 0
            ;;
        *) fail "$(basename "$0") takes no arguments (got: $1); valid: environment variables, see --help" ;;
    esac
}

# A substitution is stronger than a variable: a container or a desktop sets variables of its own.
adopt_substitutions() {
    local name substitution
    for name in "${INPUTS[@]}"; do
        substitution=_$name
        if [ -n "${!substitution+set}" ]; then printf -v "$name" '%s' "${!substitution}"; fi
        [ -n "${!name:-}" ] || printf -v "$name" '%s' ""
        export "${name?}"
    done
}

# Cloud Build's own substitutions for pull requests also begin with an underscore.
refuse_unknown_substitutions() {
    local line name known="${INPUTS[*]} HEAD_BRANCH BASE_BRANCH HEAD_REPO_URL PR_NUMBER"
    while IFS= read -r line; do
        name=${line#_}
        [[ " $known " == *" $name "* ]] || fail "_$name: is not a substitution; valid: ${INPUTS[*]/#/_}"
    done < <(compgen -e | grep -E '^_[A-Z][A-Z0-9_]*$' || true)
}

default_inputs() {
    PROJECT_ID=${PROJECT_ID:-}
    NAME=${NAME:-tpu-provisioner}
    CREATE_ENVIRONMENT=${CREATE_ENVIRONMENT:-true}
    CREATE_TENSORBOARD=${CREATE_TENSORBOARD:-false}
    FORCE=${FORCE:-false}
    DELETE_STATE=${DELETE_STATE:-false}
    DELETE_ARTIFACTS=${DELETE_ARTIFACTS:-false}
    PLAN_ONLY=${PLAN_ONLY:-false}
    REBUILD_EXPORTER=${REBUILD_EXPORTER:-false}
    NAMESPACE=${NAMESPACE:-tpu-training}
    TF_STATE_BUCKET=${TF_STATE_BUCKET:-$PROJECT_ID-$NAME-state}
    TF_STATE_PREFIX=${TF_STATE_PREFIX:-$NAME}
    CLUSTER_LOCATION=${CLUSTER_LOCATION:-$REGION}
    SERVICES_REGION=${SERVICES_REGION:-$REGION}
    CLUSTER_PROJECT=${CLUSTER_PROJECT:-$PROJECT_ID}
    # A key is of one region.
    [ "$SERVICES_REGION" != "$REGION" ] || SERVICES_KMS_KEY=${SERVICES_KMS_KEY:-$KMS_KEY}
    BUILD_FOLDER=${BUILD_FOLDER:-$ROOT/build/deploy}
    LOCK_TIMEOUT=${LOCK_TIMEOUT:-20m}
    TERRAFORM_ROOT=$ROOT/infra/terraform/complete
    [ "$CREATE_ENVIRONMENT" = true ] || TERRAFORM_ROOT=$ROOT/infra/terraform/provisioner
    # The provider is that of the lock file beside the root. A copy without one takes any version of the range.
    TERRAFORM_INIT=(init -reconfigure)
    [ ! -f "$TERRAFORM_ROOT/.terraform.lock.hcl" ] || TERRAFORM_INIT+=(-lockfile=readonly)
    REPOSITORY=$REGION-docker.pkg.dev/$PROJECT_ID/$NAME-images
    REPOSITORY_MARK="Images of $NAME, made by its build" # its description; the builds of all releases write this one
    mkdir -p "$BUILD_FOLDER"
    BUILD_FOLDER=$(cd "$BUILD_FOLDER" && pwd) # Terraform runs in another folder
    export PROJECT_ID NAME CREATE_ENVIRONMENT CREATE_TENSORBOARD FORCE DELETE_STATE DELETE_ARTIFACTS PLAN_ONLY REBUILD_EXPORTER
    export SERVICES_REGION NAMESPACE TF_STATE_BUCKET TF_STATE_PREFIX CLUSTER_LOCATION CLUSTER_PROJECT BUILD_FOLDER TERRAFORM_ROOT REPOSITORY REPOSITORY_MARK
}

# These are the inputs that scripts need before Terraform runs. Terraform checks the others.
form_of() {
    local bool='^(true|false)$' project='^[a-z][-a-z0-9]{4,28}[a-z0-9]$' cluster='^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$'
    case $1 in
        PROJECT_ID | CLUSTER_PROJECT | NETWORK_PROJECT) FORM=$project VALID="a project id: 6 to 30 lower-case letters, digits and hyphens, beginning with a letter" ;;
        REGION) FORM='^[a-z]+-[a-z]+[0-9]+$' VALID="a region such as us-east5" ;;
        SERVICES_REGION) FORM='^[a-z]+-[a-z]+[0-9]+$' VALID="a region with Cloud Scheduler and Cloud Run, such as us-central1" ;;
        ZONE) FORM='^[a-z]+-[a-z]+[0-9]+-[a-z0-9]+$' VALID="a zone such as us-east5-b or us-south1-ai1b" ;;
        CLUSTER_LOCATION) FORM='^[a-z]+-[a-z]+[0-9]+(-[a-z0-9]+)?$' VALID="the cluster's region (us-east5), or its zone if it is zonal (us-east5-b)" ;;
        NAME) FORM='^[a-z]([-a-z0-9]{0,18}[a-z0-9])?$' VALID="1 to 20 lower-case letters, digits and hyphens, beginning with a letter" ;;
        CLUSTER_NAME) FORM=$cluster VALID="GKE's short name: at most 40 lower-case letters, digits and hyphens, beginning with a letter" ;;
        NAMESPACE) FORM='^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$' VALID="a Kubernetes namespace: lower-case letters, digits and hyphens" ;;
        JOBSET_DIGEST | KUEUE_DIGEST) FORM='^sha256:[0-9a-f]{64}$' VALID="the digest of the release's image: sha256: and 64 hexadecimal digits" ;;
        MORE_NAMESPACES) FORM='^[a-z0-9][-a-z0-9, ]*$' VALID="namespaces separated by spaces or commas" ;;
        QUOTAS) FORM='^[a-z0-9][-a-z0-9=, ]*$' VALID="TPU types with numbers of chips, such as v6e-16=64, separated by spaces or commas" ;;
        TF_STATE_BUCKET | ARTIFACT_REPOSITORY_BUCKET_NAME) FORM='^[a-z0-9][-a-z0-9_.]{1,61}[a-z0-9]$' VALID="a bucket's name without gs://: 3 to 63 lower-case letters, digits, hyphens, underscores and dots" ;;
        TF_STATE_PREFIX) FORM='^[A-Za-z0-9][-A-Za-z0-9_./]*$' VALID="a folder in the state bucket: letters, digits and - _ . /" ;;
        NUM_TPU_POOLS | NUM_OF_CHIPS | LIMIT_CHIPS) FORM='^[0-9]{1,7}$' VALID="a whole number" ;;
        CREATE_ENVIRONMENT | CREATE_TENSORBOARD | FORCE | DELETE_STATE | DELETE_ARTIFACTS | PLAN_ONLY | REBUILD_EXPORTER | PRIVATE_NODES) FORM=$bool VALID="true or false" ;;
        JOBSET_API_VERSION | KUEUE_API_VERSION) FORM='^(v[0-9]+\.[0-9]+\.[0-9]+|none)$' VALID="a version such as v0.11.1, none, or nothing for the default" ;;
        IMAGE_REPOSITORY | TPU_TYPE | NETWORK_NAME | SUBNET_NAME | TENSORBOARD_REGION) FORM='^[a-z][-a-z0-9]*$' VALID="lower-case letters, digits and hyphens" ;;
        NODE_SERVICE_ACCOUNTS) FORM='^[-a-z0-9@., ]+$' VALID="e-mail addresses, separated by spaces or commas" ;;
        ALLOW_DELETE) FORM='^[-a-z0-9_./, ]+$' VALID="names as the refusal prints them, such as pool/cpu-node-pool, separated by spaces or commas" ;;
        FUNCTIONS_ARCHIVE) FORM='^functions-[0-9a-f]{16}\.zip$' VALID="the name of a kept archive, as the last lines of a build print it: functions-0123456789abcdef.zip" ;;
        EXPORTER_IMAGE) FORM='^[a-z0-9][-a-z0-9./:_]*@sha256:[0-9a-f]{64}$' VALID="a released image with its digest, as the release names it: ghcr.io/OWNER/tpu-provisioner/exporter@sha256: and 64 hexadecimal digits" ;;
        RELEASE_REGISTRY) FORM='^[a-z0-9][-a-z0-9.:]*(/[a-z0-9][-a-z0-9._]*)+$' VALID="a registry's host and a path in lower case, such as ghcr.io/OWNER/tpu-provisioner" ;;
        ALERT_EMAIL) FORM='^[^@[:space:],]+@[^@[:space:],]+\.[A-Za-z]+$' VALID="one e-mail address such as team@example.com" ;;
        RUNBOOK_URL) FORM='^https://[^[:space:]#]+$' VALID="the https:// address of docs/runbook.md as your people read it, without #" ;;
        CONTROL_PLANE_ACCESS) FORM='^(dns|private)$' VALID="dns or private" ;;
        AUTHORIZED_NETWORKS) FORM='^[0-9./, ]+$' VALID="ranges such as 10.129.0.0/20, separated by spaces or commas" ;;
        FUNCTIONS_EGRESS) FORM='^(none|all|private-ranges-only)$' VALID="none, all or private-ranges-only" ;;
        FUNCTIONS_SUBNET) FORM='^projects/[^/]+/regions/[^/]+/subnetworks/[^/]+$' VALID="projects/PROJECT/regions/REGION/subnetworks/NAME, in the functions' region" ;;
        KMS_KEY | SERVICES_KMS_KEY) FORM='^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+$' VALID="projects/PROJECT/locations/REGION/keyRings/RING/cryptoKeys/NAME" ;;
        BUILD_WORKER_POOL) FORM='^projects/[^/]+/locations/[^/]+/workerPools/[^/]+$' VALID="projects/PROJECT/locations/REGION/workerPools/NAME, in the functions' region" ;;
        TERRAFORM_VARIABLES) FORM='^[^/].*\.json$' VALID="the path of a .json file in the source, relative to its top" ;;
        *) fail "$1 is not an input of these scripts" ;;
    esac
}

# Fail unless each named input has a valid value.
need() {
    local name
    for name in "$@"; do
        form_of "$name"
        [ -n "${!name:-}" ] || fail "$name: is required; valid: $VALID"
        [[ ${!name} =~ $FORM ]] || fail "$name: is not valid (got: ${!name}); valid: $VALID"
    done
}

# Fail if a named input has a value that is not valid.
allow() {
    local name
    for name in "$@"; do
        [ -z "${!name:-}" ] || need "$name"
    done
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

# Where the archives of functions that answered are kept, for a rollback.
archives() {
    printf 'gs://%s/%s/functions' "$TF_STATE_BUCKET" "$TF_STATE_PREFIX"
}

# An object beside the state while a provision build applies. One that is left tells that the build was killed.
mark_of_apply() {
    printf 'gs://%s/%s/unfinished-build' "$TF_STATE_BUCKET" "$TF_STATE_PREFIX"
}

# Whether a bucket has such an object, of any version; what cannot be looked at is not taken for nothing.
holds() {
    if gcloud storage ls --all-versions "$1" >/dev/null 2>"$BUILD_FOLDER/gone"; then return 0; fi
    grep -q -i 'matched no objects' "$BUILD_FOLDER/gone" && return 1
    cat "$BUILD_FOLDER/gone" >&2
    fail "$1 cannot be listed"
}

# The name of an archive, from its content; Terraform uploads it by the same name.
name_of_archive() {
    printf 'functions-%s.zip' "$(sha256sum "$1" | cut -c 1-16)"
}

# What is not set and would be missed, for the one who reads the build's output.
say_what_is_not_set() {
    python3 "$ROOT/infra/build/render_variables.py" --not-set
}

# With PLAN_ONLY=true, a script that changes something ends here; the argument says what it would do.
skip_in_plan_only() {
    [ "$PLAN_ONLY" = true ] || return 0
    say "Only planned: $1"
    exit 0
}

# Objects beside the state: its lock, which Terraform deletes when it ends, and the inputs of the last build that applied.
lock_of_state() {
    printf 'gs://%s/%s/default.tflock' "$TF_STATE_BUCKET" "$TF_STATE_PREFIX"
}

kept_inputs() {
    printf 'gs://%s/%s/inputs' "$TF_STATE_BUCKET" "$TF_STATE_PREFIX"
}

# What stays from build to build, one name and value in each line; of a file of variables its content.
list_inputs() {
    local name
    for name in "${INPUTS[@]}"; do
        case $name in
            FORCE | DELETE_STATE | DELETE_ARTIFACTS | ALLOW_DELETE | PLAN_ONLY | REBUILD_EXPORTER | TERRAFORM_VARIABLES) ;;
            *) printf '%s=%s\n' "$name" "${!name:-}" ;;
        esac
    done
    if [ -n "$TERRAFORM_VARIABLES" ]; then sed 's/^/TERRAFORM_VARIABLES: /' "$ROOT/$TERRAFORM_VARIABLES"; fi
}

# For the one who reads the build's output: which inputs are not those of the last build.
say_what_changes() {
    local line
    if ! gcloud storage cp "$(kept_inputs)" "$BUILD_FOLDER/inputs-before" --quiet 2>"$BUILD_FOLDER/gone"; then return 0; fi
    list_inputs >"$BUILD_FOLDER/inputs"
    while IFS= read -r line; do say "The last build had: $line"; done < <(grep -v -x -F -f "$BUILD_FOLDER/inputs" "$BUILD_FOLDER/inputs-before" || true)
    while IFS= read -r line; do say "This build has: $line"; done < <(grep -v -x -F -f "$BUILD_FOLDER/inputs-before" "$BUILD_FOLDER/inputs" || true)
}

# A lock is another build's, or one that a killed build has left.
say_lock() {
    if ! gcloud storage cp "$(lock_of_state)" "$BUILD_FOLDER/lock" --quiet 2>"$BUILD_FOLDER/gone"; then return 0; fi
    say "Terraform's state is locked, and Terraform waits for at most $LOCK_TIMEOUT: $(<"$BUILD_FOLDER/lock")"
    say "If no other build runs (gcloud builds list --ongoing --region=$REGION --project=$PROJECT_ID), remove the lock: gcloud storage rm $(lock_of_state)"
}

# Terraform on the state, which it locks: a verb, or two words after `state`, and then the arguments.
terraform_locked() {
    local verb=("$1")
    shift
    if [ "${verb[0]}" = state ]; then verb+=("$1") && shift; fi
    say_lock
    terraform_here "${verb[@]}" -lock-timeout="$LOCK_TIMEOUT" "$@"
}

terraform_here() {
    TF_IN_AUTOMATION=1 TF_INPUT=0 TF_DATA_DIR=$BUILD_FOLDER/terraform "${TERRAFORM:-terraform}" -chdir="$TERRAFORM_ROOT" "$@"
}

# One output of the deployment as lines of text; see outputs.py.
read_outputs() {
    python3 "$ROOT/infra/build/outputs.py" --file "$BUILD_FOLDER/outputs.json" "$@"
}

# Point kubectl at a served cluster: key, project, location, name, and the flag for its endpoint.
choose_cluster() {
    export KUBECONFIG=$BUILD_FOLDER/kubeconfig-$1
    gcloud container clusters get-credentials "$4" --location="$3" --project="$2" "$5" --quiet
}

# Write the topic of the chosen cluster's exporter to BUILD_FOLDER/exporter-topic; nothing without an exporter.
read_exporter_topic() {
    kubectl --namespace=tpu-provisioner get deployment tpu-provisioner-exporter --ignore-not-found --request-timeout=30s \
        --output='jsonpath={.spec.template.spec.containers[*].env[?(@.name=="TPU_PROVISIONER_TOPIC")].value}' \
        >"$BUILD_FOLDER/exporter-topic"
}

# Whether that exporter is of another deployment.
is_of_another() {
    TOPIC=$(cat "$BUILD_FOLDER/exporter-topic")
    [ -n "$TOPIC" ] && [ "$TOPIC" != "projects/$PROJECT_ID/topics/$NAME-workload-events" ]
}

# A cluster has one exporter and one set of rights for functions, so it has one deployment.
refuse_exporter_of_another() {
    if ! is_of_another; then return 0; fi
    fail "CLUSTER_NAME: the cluster $1 is served by another deployment, because its exporter publishes to $TOPIC. Valid: a cluster without an exporter. For this one, run the destroy build of that deployment first; if that deployment does not exist any more: kubectl delete namespace tpu-provisioner"
}

answer_help "$@"
PATH=$PATH:$ROOT/build/bin:$ROOT/build/go/bin # programs in exact versions
adopt_substitutions
default_inputs
