# A training environment and the provisioner that serves its cluster, and others if any are named.

provider "google" {
  project = var.project_id
  region  = var.region

  default_labels = {
    app = var.name
  }
}

module "environment" {
  source = "../modules/environment"

  project_id                        = var.project_id
  region                            = var.region
  zone                              = var.zone
  cluster_name                      = var.cluster_name
  cluster_description               = var.cluster_description
  gke_release_channel               = var.gke_release_channel
  gke_version                       = var.gke_version
  deletion_protection               = var.deletion_protection
  enable_private_nodes              = var.enable_private_nodes
  enable_ip_endpoints               = var.enable_ip_endpoints
  maintenance_window                = var.maintenance_window
  cpu_pool_node_count               = var.cpu_pool_node_count
  cpu_pool_zones                    = var.cpu_pool_zones
  cpu_pool_machine_type             = var.cpu_pool_machine_type
  cpu_pool_disk_type                = var.cpu_pool_disk_type
  cpu_pool_disk_size                = var.cpu_pool_disk_size
  max_pods_per_node                 = var.max_pods_per_node
  create_network                    = var.create_network
  network_name                      = var.network_name
  subnet_name                       = var.subnet_name
  subnet_ip_range                   = var.subnet_ip_range
  pods_ip_range                     = var.pods_ip_range
  services_ip_range                 = var.services_ip_range
  pods_range_name                   = var.pods_range_name
  services_range_name               = var.services_range_name
  create_nat                        = var.create_nat
  control_plane_access              = var.control_plane_access
  authorized_networks               = var.authorized_networks
  network_project                   = var.network_project
  kms_key                           = var.kms_key
  gke_sa_name                       = var.gke_sa_name
  gke_sa_roles                      = var.gke_sa_roles
  tpu_sa_name                       = var.tpu_sa_name
  create_tpu_google_service_account = var.create_tpu_google_service_account
  tpu_sa_roles                      = var.tpu_sa_roles
  tpu_namespace                     = var.tpu_namespace
  more_namespaces                   = var.more_namespaces
  image_repository_name             = var.image_repository_name
  artifact_repository_bucket_name   = var.artifact_repository_bucket_name
  force_destroy                     = var.force_destroy
  bucket_versioning                 = var.bucket_versioning
  bucket_soft_delete_seconds        = var.bucket_soft_delete_seconds
  create_tensorboard                = var.create_tensorboard
  tensorboard_region                = var.tensorboard_region
  tensorboard_name                  = var.tensorboard_name
  tpu_type                          = var.tpu_type
  num_tpu_pools                     = var.num_tpu_pools
  tpu_node_pool_name_prefix         = var.tpu_node_pool_name_prefix
  multislice_group_name             = var.multislice_group_name
  enable_tpu_autoscaling            = var.enable_tpu_autoscaling
  tpu_capacity                      = var.tpu_capacity
  tpu_reservation                   = var.tpu_reservation
  workload_policy_prefix            = var.workload_policy_prefix
  workload_policy_topologies        = var.workload_policy_topologies
}

module "provisioner" {
  source = "../modules/provisioner"

  project_id            = var.project_id
  region                = var.services_region == "" ? var.region : var.services_region
  clusters              = merge({ environment = module.environment.cluster }, var.clusters)
  node_service_accounts = concat([module.environment.node_service_account], var.node_service_accounts)
  name                  = var.name
  functions_archive     = var.functions_archive
  functions_runtime     = var.functions_runtime
  exporter_namespace    = var.exporter_namespace
  exporter_account      = var.exporter_account
  replay_days           = var.replay_days
  operation_events      = var.operation_events
  notification_channels = var.notification_channels
  alert_email           = var.alert_email
  idle_chips_max        = var.idle_chips_max
  dead_letter_bucket    = var.dead_letter_bucket
  budget                = var.budget
  limit_to_clusters     = var.limit_to_clusters
  deployed_at           = var.deployed_at
  demand_wait_minutes   = var.demand_wait_minutes
  runbook_url           = var.runbook_url
  functions_egress      = var.functions_egress
  functions_subnet      = var.functions_subnet
  build_worker_pool     = var.build_worker_pool
  require_private_nodes = var.require_private_nodes
  services_kms_key      = var.services_kms_key

  # Both must mean the same workload policies, or no tpu7x pool would find its own.
  # Pools on demand get the key of the environment's other disks, unless a setting names one.
  settings = merge(var.kms_key == "" ? {} : { node_boot_disk_kms_key = var.kms_key }, var.settings, { workload_policy_prefix = module.environment.workload_policy_prefix })
}
