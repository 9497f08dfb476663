#!/usr/bin/env bash
# Prepares a project for the builds: what only an owner may do, and only once. It shows what it will do, and asks.
#
#   infra/bootstrap.sh REGION [options]      REGION: of the builds, the functions, the scheduler and the images
#
#   --cluster=[PROJECT/]LOCATION/NAME  a cluster to create or to serve (again for each; default: REGION/training)
#   --node-account=EMAIL               another account that nodes may run as (again for each; default: NAME-nodes)
#   --bucket=NAME                      a bucket of artifacts whose name does not begin with PROJECT-NAME-
#   --dead-letter-bucket=NAME          your bucket for copies of dead letters
#   --tensorboard=NAMESPACE/ACCOUNT    the build makes a TensorBoard, and this ServiceAccount may write to it
#   --kms-key=KEY --services-kms-key=KEY     your keys of the cluster's and of the functions' region (docs/private.md)
#   --subnet=NAME --functions-subnet=NAME    subnets of a host project: projects/P/regions/R/subnetworks/S
#   --name=NAME                        of the deployment (default: tpu-provisioner)
#   --project=ID                       default: gcloud's own
#   --yes                              do not ask
#   --remove                           take all of it back, after the destroy build; custom roles stay, because
#                                      Google blocks the id of a deleted one for 37 days
#
# A second run changes nothing, and adds what new options need. What needs the cluster's identity pool (--tensorboard) is
# skipped until the first build has made the cluster: run it again then. docs/permissions.md has every right and its reason.
set -euo pipefail

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

region="" project="" name=tpu-provisioner ask=true remove=false tensorboard="" dead_letters="" key="" services_key="" subnet="" functions_subnet=""
clusters=() node_accounts=() buckets=()
for word in "$@"; do
    value=${word#*=}
    case $word in
        --cluster=*) clusters+=("$value") ;;
        --node-account=*) node_accounts+=("$value") ;;
        --bucket=*) buckets+=("$value") ;;
        --dead-letter-bucket=*) dead_letters=$value ;;
        --tensorboard=*) tensorboard=$value ;;
        --kms-key=*) key=$value ;;
        --services-kms-key=*) services_key=$value ;;
        --subnet=*) subnet=$value ;;
        --functions-subnet=*) functions_subnet=$value ;;
        --name=*) name=$value ;;
        --project=*) project=$value ;;
        --yes) ask=false ;;
        --remove) remove=true ;;
        -h | --help) sed -n '2,/^set -e/{/^set -e/!s/^# \{0,1\}//p}' "$0" && exit 0 ;;
        -*) fail "$word: is not an option; see --help" ;;
        *) [ -z "$region" ] || fail "$word: is one word too many; see --help" && region=$word ;;
    esac
done
[[ $region =~ ^[a-z]+-[a-z]+[0-9]+$ ]] || fail "REGION: is not valid (got: '$region'); valid: a region with Cloud Scheduler and Cloud Run, such as us-central1"
[[ $name =~ ^[a-z]([-a-z0-9]{0,18}[a-z0-9])?$ ]] || fail "--name: is not valid (got: $name); valid: 1 to 20 lower-case letters, digits and hyphens"
[ -n "$project" ] || project=$(gcloud config get project --quiet 2>/dev/null)
[[ $project =~ ^[a-z][-a-z0-9]{4,28}[a-z0-9]$ ]] || fail "--project: is not valid (got: '$project'); valid: the id of a project"
[ "${#clusters[@]}" -gt 0 ] || clusters=("$region/training")
for index in "${!clusters[@]}"; do
    [[ ${clusters[index]} =~ ^[^/]+/[^/]+$ ]] && clusters[index]=$project/${clusters[index]}
    [[ ${clusters[index]} =~ ^[a-z][-a-z0-9]+/[a-z]+-[a-z]+[0-9]+(-[a-z0-9]+)?/[a-z][-a-z0-9]{0,39}$ ]] ||
        fail "--cluster: is not valid (got: ${clusters[index]}); valid: us-central1/training, or with its project before it"
done
number=$(gcloud projects describe "$project" --format='value(projectNumber)' --quiet) || number=
[ -n "$number" ] || fail "the project $project cannot be read; log in with: gcloud auth login"

domain=$project.iam.gserviceaccount.com
nodes=$name-nodes@$domain
role_prefix=${name//-/_}
deployer=$name-deployer@$domain

# ---- What there is to do. Each act is shown first, and done when a person has agreed.

mode=show
act() {
    local words=$1
    shift
    printf '  %s\n' "$words"
    [ "$mode" = show ] || "$@"
}

quiet() {
    "$@" --quiet --format=none
}

# An account that was just made may not be known everywhere for some seconds.
patient() {
    local attempt=0
    while [ $((attempt += 1)) -le 10 ]; do
        if "$@"; then return 0; fi
        sleep "${PAUSE_SECONDS:-5}"
    done
    fail "could not run: $*"
}

make_account() {
    gcloud iam service-accounts describe "$1@$domain" --project="$project" --format='value(email)' --quiet >/dev/null 2>&1 ||
        quiet gcloud iam service-accounts create "$1" --project="$project" --display-name="$2"
}

# Google keeps a deleted role for 7 days, and refuses its id until day 37.
make_role() {
    local home=$1 role=${role_prefix}_$2 title=$3 permissions=$4 deleted="" verb=create
    if deleted=$(gcloud iam roles describe "$role" --project="$home" --format='value(deleted)' --quiet 2>/dev/null); then verb=update; fi
    [ "${deleted,,}" != true ] || quiet gcloud iam roles undelete "$role" --project="$home"
    quiet gcloud iam roles "$verb" "$role" --project="$home" --title="$title" --permissions="$permissions" ||
        fail "--name: the role $role cannot be made. If it was deleted, its id is free again 37 days after that; until then choose another name (got: $name)"
}

make_state_bucket() {
    local bucket=gs://$project-$name-state
    gcloud storage buckets describe "$bucket" --format='value(name)' --quiet >/dev/null 2>&1 ||
        gcloud storage buckets create "$bucket" --project="$project" --location="$region" --uniform-bucket-level-access \
            --public-access-prevention ${services_key:+--default-encryption-key="$services_key"} --quiet
    gcloud storage buckets update "$bucket" --versioning --quiet
}

make_repository() {
    gcloud artifacts repositories describe "$name-images" --location="$region" --project="$project" --format='value(name)' --quiet >/dev/null 2>&1 ||
        quiet gcloud artifacts repositories create "$name-images" --location="$region" --project="$project" --repository-format=docker \
            --description="Images of $name" ${services_key:+--kms-key="$services_key"}
}

# Member, role, project, and a condition with its title.
grant() {
    local condition=None
    [ -z "${4:-}" ] || condition="expression=$4,title=$5"
    act "$2 on $3${4:+, only $5}: ${1#serviceAccount:}" \
        patient quiet gcloud projects add-iam-policy-binding "$3" --member="$1" --role="$2" --condition="$condition"
}

# Member, role, what it is on, and gcloud's words up to the member.
grant_on() {
    local member=$1 role=$2 object=$3
    shift 3
    act "$role on $object: ${member#serviceAccount:}" patient quiet gcloud "$@" --member="$member" --role="$role"
}

grant_on_account() {
    grant_on "$1" "$2" "$3" iam service-accounts add-iam-policy-binding "$3" --project="$(home_of "$3")" --condition=None
}

# The project of an account.
home_of() {
    local home=${1#*@}
    printf '%s' "${home%%.*}"
}

# "Google Kubernetes Engine regional clusters: projects/P/locations/L/clusters/C", zonal ones with zones/Z
# (https://cloud.google.com/iam/docs/conditions-resource-attributes#resource-name).
condition_of() { # assumes: cluster-condition
    local home location cluster path kind expression=""
    IFS=/ read -r home location cluster <<<"$1"
    for kind in locations zones; do
        path=projects/$home/$kind/$location/clusters/$cluster
        [ "$kind" = locations ] || [[ $location =~ ^[a-z]+-[a-z]+[0-9]+-[a-z0-9]+$ ]] || continue
        expression="${expression:+$expression || }resource.name == \"$path\" || resource.name.startsWith(\"$path/\")"
    done
    printf '%s' "$expression"
}

list_apis() {
    local api
    for api in artifactregistry cloudbuild cloudfunctions cloudresourcemanager cloudscheduler compute container iam iamcredentials \
        logging monitoring pubsub run serviceusage storage ${tensorboard:+aiplatform}; do
        printf '%s.googleapis.com ' "$api"
    done
}

list_acts() {
    local account role home cluster each condition
    read -r -a apis <<<"$(list_apis)"
    act "APIs: ${apis[*]%.googleapis.com}" gcloud services enable "${apis[@]}" --project="$project" --quiet
    act "Pub/Sub's own account" patient quiet gcloud beta services identity create --service=pubsub.googleapis.com --project="$project"
    act "bucket gs://$project-$name-state, versioned and private, for Terraform's state" make_state_bucket
    for account in "deployer:Builds of $name" "provision:Creates node pools" "collect:Deletes node pools that nothing needs" \
        "push:As whom Pub/Sub calls the functions" "scheduler:As whom Cloud Scheduler calls them" "build:Builds the functions' images" "nodes:Nodes"; do
        act "account $name-${account%%:*}@$domain" make_account "$name-${account%%:*}" "${account#*:}"
    done
    act "repository $region-docker.pkg.dev/$project/$name-images" make_repository

    # The account of the builds. It may change no policy of the project, of an account or of a role.
    for role in artifactregistry.admin cloudfunctions.developer cloudscheduler.admin compute.networkAdmin logging.configWriter \
        logging.logWriter logging.viewer monitoring.editor pubsub.admin run.admin ${tensorboard:+aiplatform.admin}; do
        grant "serviceAccount:$deployer" "roles/$role" "$project"
    done
    condition="resource.name.startsWith(\"projects/_/buckets/$project-$name-\")"
    for each in "${project}_${region}_cloudbuild" "$number-$region-cloudbuild-logs" "${buckets[@]}"; do
        condition+=" || resource.name.startsWith(\"projects/_/buckets/$each\")"
    done
    grant "serviceAccount:$deployer" roles/storage.admin "$project" "$condition" "the buckets of this deployment"
    for account in provision collect push scheduler build nodes; do
        grant_on_account "serviceAccount:$deployer" roles/iam.serviceAccountUser "$name-$account@$domain"
    done

    for home in $(printf '%s\n' "${clusters[@]%%/*}" "$project" | sort -u); do
        # A condition by name refuses what is not there yet, and what is asked of a location.
        act "role ${role_prefix}_builds in $home" make_role "$home" builds "Builds of $name" \
            container.clusters.create,container.clusters.list,container.operations.get,container.operations.list,storage.buckets.create,storage.buckets.list,resourcemanager.projects.get,compute.instanceGroupManagers.get,compute.instanceGroupManagers.list,compute.resourcePolicies.create,compute.resourcePolicies.delete,compute.resourcePolicies.get,compute.resourcePolicies.list
        act "role ${role_prefix}_pools in $home" make_role "$home" pools "Node pools of $name" \
            container.clusters.connect,container.clusters.get,container.clusters.update
        act "role ${role_prefix}_reads in $home" make_role "$home" reads "Reads of $name" \
            compute.instanceGroupManagers.get,container.operations.list
        grant "serviceAccount:$deployer" "projects/$home/roles/${role_prefix}_builds" "$home"
        for account in provision collect; do
            grant "serviceAccount:$name-$account@$domain" "projects/$home/roles/${role_prefix}_reads" "$home"
        done
        if [ "$home" != "$project" ]; then
            for role in logging.configWriter monitoring.metricsScopesAdmin; do grant "serviceAccount:$deployer" "roles/$role" "$home"; done
            grant "serviceAccount:$deployer" roles/monitoring.metricsScopesAdmin "$project"
        fi
    done
    for cluster in "${clusters[@]}"; do
        home=${cluster%%/*} condition=$(condition_of "$cluster")
        grant "serviceAccount:$deployer" roles/container.admin "$home" "$condition" "the cluster ${cluster##*/}"
        for account in provision collect; do
            grant "serviceAccount:$name-$account@$domain" "projects/$home/roles/${role_prefix}_pools" "$home" "$condition" "the cluster ${cluster##*/}"
        done
    done
    for account in "$nodes" "${node_accounts[@]}"; do
        grant_on_account "serviceAccount:$name-provision@$domain" roles/iam.serviceAccountUser "$account"
    done
    for role in container.defaultNodeServiceAccount artifactregistry.reader; do grant "serviceAccount:$nodes" "roles/$role" "$project"; done

    grant "serviceAccount:$name-build@$domain" roles/logging.logWriter "$project"
    grant "serviceAccount:$name-build@$domain" roles/storage.objectViewer "$project" \
        "resource.name.startsWith(\"projects/_/buckets/gcf-v2-sources-$number-$region\")" "the source of functions"
    grant_on "serviceAccount:$name-build@$domain" roles/artifactregistry.writer "$name-images" \
        artifacts repositories add-iam-policy-binding "$name-images" --location="$region" --project="$project"
    # Pub/Sub's account makes the tokens by a role of its own, but not where it was made before April 2021.
    grant_on_account "serviceAccount:service-$number@gcp-sa-pubsub.iam.gserviceaccount.com" roles/iam.serviceAccountTokenCreator "$name-push@$domain"
    list_optional_acts
}

list_optional_acts() {
    local service
    if [ -n "$dead_letters" ]; then
        for role in storage.objectCreator storage.legacyBucketReader; do
            grant_on "serviceAccount:service-$number@gcp-sa-pubsub.iam.gserviceaccount.com" "roles/$role" "gs://$dead_letters" \
                storage buckets add-iam-policy-binding "gs://$dead_letters"
        done
    fi
    if [ -n "$tensorboard" ]; then
        local member="principal://iam.googleapis.com/projects/$number/locations/global/workloadIdentityPools/$project.svc.id.goog/subject/ns/${tensorboard%%/*}/sa/${tensorboard##*/}"
        act "roles/aiplatform.user on $project: ${tensorboard} (needs the cluster)" grant_if_pool "$member"
    fi
    [ -z "$key" ] || for service in artifactregistry compute container storage ${tensorboard:+aiplatform}; do grant_key "$key" "$service"; done
    [ -z "$services_key" ] || for service in artifactregistry cloudfunctions eventarc pubsub run storage; do grant_key "$services_key" "$service"; done
    if [ -n "$subnet" ]; then
        for member in "$(agent container)" "$number@cloudservices.gserviceaccount.com" "$deployer"; do grant_subnet "$subnet" "$member"; done
        grant "serviceAccount:$(agent container)" roles/container.hostServiceAgentUser "$(cut -d/ -f2 <<<"$subnet")"
    fi
    if [ -n "$functions_subnet" ]; then
        grant_subnet "$functions_subnet" "$(agent run)"
        for member in "$(agent run)" "$deployer"; do grant "serviceAccount:$member" roles/compute.networkViewer "$(cut -d/ -f2 <<<"$functions_subnet")"; done
    fi
}

grant_if_pool() {
    quiet gcloud projects add-iam-policy-binding "$project" --member="$1" --role=roles/aiplatform.user --condition=None ||
        printf '  not yet: the first build makes the cluster; run this again after it\n'
}

# Google's own account for a service.
agent() {
    case $1 in
        aiplatform | artifactregistry | eventarc | pubsub) printf 'service-%s@gcp-sa-%s.iam.gserviceaccount.com' "$number" "$1" ;;
        cloudfunctions) printf 'service-%s@gcf-admin-robot.iam.gserviceaccount.com' "$number" ;;
        compute) printf 'service-%s@compute-system.iam.gserviceaccount.com' "$number" ;;
        container) printf 'service-%s@container-engine-robot.iam.gserviceaccount.com' "$number" ;;
        run) printf 'service-%s@serverless-robot-prod.iam.gserviceaccount.com' "$number" ;;
        storage) printf 'service-%s@gs-project-accounts.iam.gserviceaccount.com' "$number" ;;
    esac
}

make_agent() {
    case $1 in
        compute) ;; # is there where Compute Engine is enabled
        storage) gcloud storage service-agent --project="$project" --quiet >/dev/null ;;
        *) quiet gcloud beta services identity create --service="$1.googleapis.com" --project="$project" ;;
    esac
}

grant_key() {
    act "Google's account of $2" patient make_agent "$2"
    grant_on "serviceAccount:$(agent "$2")" roles/cloudkms.cryptoKeyEncrypterDecrypter "$1" kms keys add-iam-policy-binding "$1"
}

grant_subnet() {
    local home place subnet_name
    IFS=/ read -r _ home _ place _ subnet_name <<<"$1"
    grant_on "serviceAccount:$2" roles/compute.networkUser "$1" \
        compute networks subnets add-iam-policy-binding "$subnet_name" --project="$home" --region="$place"
}

# ---- The way back.

revoke_all() {
    local home=$1 member=$2 role
    while IFS= read -r role; do
        [ -z "$role" ] || quiet gcloud projects remove-iam-policy-binding "$home" --member="$member" --role="$role" --all
    done < <(gcloud projects get-iam-policy "$home" --flatten='bindings[].members' --filter="bindings.members=$member" \
        --format='value(bindings.role)' --quiet | sort -u)
}

delete_account() {
    ! gcloud iam service-accounts describe "$1" --project="$project" --format='value(email)' --quiet >/dev/null 2>&1 ||
        gcloud iam service-accounts delete "$1" --project="$project" --quiet
}

delete_repository() {
    ! gcloud artifacts repositories describe "$name-images" --location="$region" --project="$project" --format='value(name)' --quiet >/dev/null 2>&1 ||
        gcloud artifacts repositories delete "$name-images" --location="$region" --project="$project" --quiet
}

list_removals() {
    local account home
    for account in deployer provision collect push scheduler build nodes; do
        for home in $(printf '%s\n' "${clusters[@]%%/*}" "$project" | sort -u); do
            act "all roles of $name-$account on $home" revoke_all "$home" "serviceAccount:$name-$account@$domain"
        done
        act "account $name-$account@$domain" delete_account "$name-$account@$domain"
    done
    act "repository $name-images with its images" delete_repository
    printf '  kept: the custom roles, the APIs, and gs://%s-%s-state (the destroy build empties it with _DELETE_STATE=true)\n' "$project" "$name"
}

run=list_acts
if [ "$remove" = true ]; then
    ! gcloud storage ls "gs://$project-$name-state/$name/default.tfstate" --quiet >/dev/null 2>&1 ||
        fail "the deployment $name still has a state; run the destroy build with _DELETE_STATE=true first"
    run=list_removals
fi
printf '%s in the project %s:\n' "$([ "$remove" = true ] && printf 'To remove' || printf 'To make or grant')" "$project"
"$run"
if [ "$ask" = true ]; then
    read -r -p 'Go on? [y/N] ' answer
    [[ $answer =~ ^[yY] ]] || fail "nothing was changed"
fi
mode=work
"$run"
[ "$remove" = true ] || printf 'Next: gcloud builds submit --config cloudbuild.provision.yaml --region %s --project %s\n' "$region" "$project"
