# A training environment, unless clusters exist already, and the provisioner that serves them.

provider "google" {
  project = var.project_id
  region  = var.services_region

  default_labels = {
    app = var.name
  }
}

module "environment" {
  source = "./modules/environment"
  count  = local.creates_environment ? 1 : 0

  project_id                      = var.project_id
  region                          = local.environment.region
  zone                            = local.environment.zone
  cluster_name                    = local.environment.cluster_name
  cluster_description             = local.environment.cluster_description
  gke_release_channel             = local.environment.gke_release_channel
  gke_version                     = local.environment.gke_version
  deletion_protection             = var.deletion_protection
  enable_private_nodes            = local.environment.enable_private_nodes
  enable_ip_endpoints             = local.environment.enable_ip_endpoints
  maintenance_window              = local.environment.maintenance_window
  cpu_pool_node_count             = local.environment.cpu_pool_node_count
  cpu_pool_zones                  = local.environment.cpu_pool_zones
  cpu_pool_machine_type           = local.environment.cpu_pool_machine_type
  cpu_pool_disk_type              = local.environment.cpu_pool_disk_type
  cpu_pool_disk_size              = local.environment.cpu_pool_disk_size
  max_pods_per_node               = local.environment.max_pods_per_node
  node_service_account            = local.node_accounts[0]
  tpu_sa_name                     = local.environment.tpu_sa_name
  tpu_namespace                   = local.environment.tpu_namespace
  artifact_repository_bucket_name = local.environment.artifact_repository_bucket_name
  force_destroy                   = local.environment.force_destroy
  bucket_versioning               = local.environment.bucket_versioning
  bucket_soft_delete_seconds      = local.environment.bucket_soft_delete_seconds
  create_tensorboard              = local.environment.create_tensorboard
  tensorboard_region              = local.environment.tensorboard_region
  tensorboard_name                = local.environment.tensorboard_name
  create_network                  = local.environment.create_network
  network_name                    = local.environment.network_name
  subnet_name                     = local.environment.subnet_name
  subnet_ip_range                 = local.environment.subnet_ip_range
  pods_ip_range                   = local.environment.pods_ip_range
  services_ip_range               = local.environment.services_ip_range
  pods_range_name                 = local.environment.pods_range_name
  services_range_name             = local.environment.services_range_name
  create_nat                      = local.environment.create_nat
  control_plane_access            = local.environment.control_plane_access
  authorized_networks             = local.environment.authorized_networks
  network_project                 = local.environment.network_project
  kms_key                         = local.environment.kms_key
  tpu_type                        = local.environment.tpu_type
  num_tpu_pools                   = local.environment.num_tpu_pools
  tpu_node_pool_name_prefix       = local.environment.tpu_node_pool_name_prefix
  multislice_group_name           = local.environment.multislice_group_name
  enable_tpu_autoscaling          = local.environment.enable_tpu_autoscaling
  tpu_capacity                    = local.environment.tpu_capacity
  tpu_reservation                 = local.environment.tpu_reservation
  workload_policy_prefix          = local.environment.workload_policy_prefix
  workload_policy_topologies      = local.environment.workload_policy_topologies
  more_namespaces                 = local.environment.more_namespaces
  image_repository_name           = local.environment.image_repository_name
  num_of_chips                    = local.environment.num_of_chips
  quotas                          = local.environment.quotas
}

module "functions" {
  source = "./modules/functions_archive"

  path = "${path.root}/functions.zip"
}

module "provisioner" {
  source = "./modules/provisioner"

  project_id            = var.project_id
  region                = var.services_region
  name                  = var.name
  clusters              = merge({ for each in module.environment[*].cluster : "environment" => each }, var.clusters)
  functions_archive     = module.functions.path
  node_service_accounts = local.node_accounts
  notification_channels = local.options.notification_channels
  alert_email           = var.alert_email
  runbook_url           = var.runbook_url
  replay_days           = local.options.replay_days
  idle_chips_max        = local.options.idle_chips_max
  dead_letter_bucket    = local.options.dead_letter_bucket
  budget                = local.options.budget
  demand_wait_minutes   = local.options.demand_wait_minutes
  functions_egress      = local.options.functions_egress
  functions_subnet      = local.options.functions_subnet
  build_worker_pool     = local.options.build_worker_pool
  require_private_nodes = local.options.require_private_nodes
  services_kms_key      = local.options.services_kms_key

  settings = merge(
    # A limit that a person sets by the settings stays.
    contains(keys(var.settings), "limit_chips_per_namespace") && var.limit_chips == null ? {} : { limit_chips = tostring(local.limit_chips) },
    # Pools on demand get the key of the environment's other disks, unless a setting names one.
    local.environment.kms_key == null ? {} : { node_boot_disk_kms_key = local.environment.kms_key },
    var.settings,
    # Both must mean the same workload policies, or no tpu7x pool would find its own. Both have one default.
    local.environment.workload_policy_prefix == null ? {} : { workload_policy_prefix = local.environment.workload_policy_prefix },
  )
}
