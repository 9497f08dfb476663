# How the substitutions of the public environment become variables, and what a later build is compared with.

locals {
  # A substitution that is not set is an empty text.
  given = { for name, value in var.substitutions : name => value if value != "" }

  environment_names = [
    "region", "zone", "cluster_name", "cluster_description", "gke_release_channel", "gke_version",
    "enable_private_nodes", "enable_ip_endpoints", "maintenance_window", "cpu_pool_node_count",
    "cpu_pool_zones", "cpu_pool_machine_type", "cpu_pool_disk_type", "cpu_pool_disk_size", "max_pods_per_node",
    "tpu_sa_name", "tpu_namespace", "more_namespaces", "image_repository_name",
    "artifact_repository_bucket_name", "force_destroy", "bucket_versioning", "bucket_soft_delete_seconds",
    "create_tensorboard", "tensorboard_region", "tensorboard_name", "create_network", "network_name",
    "subnet_name", "subnet_ip_range", "pods_ip_range", "services_ip_range", "pods_range_name",
    "services_range_name", "create_nat", "control_plane_access", "authorized_networks", "network_project",
    "kms_key", "tpu_type", "num_tpu_pools", "num_of_chips", "quotas", "tpu_node_pool_name_prefix",
    "multislice_group_name", "enable_tpu_autoscaling", "tpu_capacity", "tpu_reservation",
    "workload_policy_prefix", "workload_policy_topologies",
  ]
  provisioner_names = [
    "replay_days", "notification_channels", "idle_chips_max", "dead_letter_bucket", "budget",
    "demand_wait_minutes", "functions_egress", "functions_subnet", "build_worker_pool", "require_private_nodes",
    "services_kms_key",
  ]
  # A name that nobody set is null, which stands for the module's default; but for maintenance_window null means that GKE
  # upgrades at any time.
  environment_defaults = merge({ for name in local.environment_names : name => null }, {
    maintenance_window = { start_time = "2026-01-03T03:00:00Z", end_time = "2026-01-03T11:00:00Z", recurrence = "FREQ=WEEKLY;BYDAY=SA,SU" }
  })
  provisioner_defaults = { for name in local.provisioner_names : name => null }
  substituted = {
    REGION                          = "region"
    ZONE                            = "zone"
    CLUSTER_NAME                    = "cluster_name"
    NETWORK_NAME                    = "network_name"
    SUBNET_NAME                     = "subnet_name"
    ARTIFACT_REPOSITORY_BUCKET_NAME = "artifact_repository_bucket_name"
    NAMESPACE                       = "tpu_namespace"
    TPU_TYPE                        = "tpu_type"
    NUM_TPU_POOLS                   = "num_tpu_pools"
    NUM_OF_CHIPS                    = "num_of_chips"
    TENSORBOARD_REGION              = "tensorboard_region"
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
