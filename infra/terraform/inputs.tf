# How the substitutions of the public environment become variables, and what a later build is compared with.

locals {
  # A substitution that is not set is an empty text.
  given = { for name, value in var.substitutions : name => value if value != "" }

  environment_defaults = {
    region                          = null, zone = null, cluster_name = null, cluster_description = null, gke_release_channel = null
    gke_version                     = null, enable_private_nodes = null, enable_ip_endpoints = null
    maintenance_window              = local.maintenance_window, cpu_pool_node_count = null, cpu_pool_zones = null
    cpu_pool_machine_type           = null, cpu_pool_disk_type = null, cpu_pool_disk_size = null, max_pods_per_node = null
    tpu_sa_name                     = null, tpu_namespace = null, more_namespaces = null, image_repository_name = null
    artifact_repository_bucket_name = null, force_destroy = null, bucket_versioning = null
    bucket_soft_delete_seconds      = null, create_tensorboard = null, tensorboard_region = null, tensorboard_name = null
    create_network                  = null, network_name = null, subnet_name = null, subnet_ip_range = null, pods_ip_range = null
    services_ip_range               = null, pods_range_name = null, services_range_name = null, create_nat = null
    control_plane_access            = null, authorized_networks = null, network_project = null, kms_key = null
    tpu_type                        = null, num_tpu_pools = null, num_of_chips = null, quotas = null, tpu_node_pool_name_prefix = null
    multislice_group_name           = null, enable_tpu_autoscaling = null, tpu_capacity = null, tpu_reservation = null
    workload_policy_prefix          = null, workload_policy_topologies = null
  }
  # Here null means that GKE upgrades at any time, so it cannot mean the default.
  maintenance_window = {
    start_time = "2026-01-03T03:00:00Z", end_time = "2026-01-03T11:00:00Z", recurrence = "FREQ=WEEKLY;BYDAY=SA,SU"
  }
  provisioner_defaults = {
    replay_days           = null, idle_chips_max = null, dead_letter_bucket = null, budget = null
    demand_wait_minutes   = null, functions_egress = null, functions_subnet = null, build_worker_pool = null
    require_private_nodes = null, services_kms_key = null
  }
  substituted = {
    REGION             = "region", ZONE = "zone", CLUSTER_NAME = "cluster_name", NETWORK_NAME = "network_name"
    SUBNET_NAME        = "subnet_name", ARTIFACT_REPOSITORY_BUCKET_NAME = "artifact_repository_bucket_name"
    NAMESPACE          = "tpu_namespace", TPU_TYPE = "tpu_type", NUM_TPU_POOLS = "num_tpu_pools", NUM_OF_CHIPS = "num_of_chips"
    TENSORBOARD_REGION = "tensorboard_region"
  }

  # The public environment is asked for by substitutions alone.
  creates_environment = var.environment != null || length(setintersection(keys(local.given), keys(local.substituted))) > 0
  asked = merge(
    local.environment_defaults,
    var.environment,
    { for name, to in local.substituted : to => local.given[name] if contains(keys(local.given), name) },
  )
  # Names that nobody chose follow the cluster's.
  environment = merge(local.asked, {
    region                          = local.asked.region == null ? var.services_region : local.asked.region
    network_name                    = local.asked.network_name == null ? local.asked.cluster_name : local.asked.network_name
    subnet_name                     = local.asked.subnet_name == null ? local.asked.cluster_name : local.asked.subnet_name
    artifact_repository_bucket_name = local.asked.artifact_repository_bucket_name == null ? "${var.project_id}-${var.name}-artifacts" : local.asked.artifact_repository_bucket_name
  })
  options = merge(local.provisioner_defaults, var.provisioner)

  versions = {
    for product in ["jobset", "kueue"] :
    product => flatten(regexall("sigs.k8s.io/${product} (v[0-9.]+) h1:", file("${path.module}/../build/third_party/go.sum")))
  }
  wanted = {
    jobset = lookup(local.given, "JOBSET_API_VERSION", var.jobset_version)
    kueue  = lookup(local.given, "KUEUE_API_VERSION", var.kueue_version)
  }
  queueing = {
    for product, version in local.wanted :
    product => version != "" ? version : local.creates_environment ? local.versions[product][0] : "none"
  }

  limit_chips = coalesce(var.limit_chips, max(256, try(sum([for each in module.environment[0].queue.quotas : each.chips]), 0)))
  node_accounts = distinct(concat(
    ["${var.name}-nodes@${var.project_id}.iam.gserviceaccount.com"], var.node_service_accounts,
  ))
}

# What a later build may not change without a word: infra/build/check_plan.py compares it with the last build's.
resource "terraform_data" "deployment" {
  input = {
    identity = join(" ", compact([
      var.project_id, var.name, var.services_region,
      local.creates_environment ? "${local.environment.region}/${coalesce(local.environment.cluster_name, "-")}" : "without an environment",
    ]))
    limit_chips = local.limit_chips
    versions    = local.queueing
  }
}
