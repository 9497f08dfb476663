# The provisioner beside clusters that are there already.

provider "google" {
  project = var.project_id
  region  = var.region

  default_labels = {
    app = var.name
  }
}

module "provisioner" {
  source = "../modules/provisioner"

  project_id            = var.project_id
  region                = var.region
  name                  = var.name
  clusters              = var.clusters
  functions_archive     = var.functions_archive
  functions_runtime     = var.functions_runtime
  node_service_accounts = var.node_service_accounts
  settings              = var.settings
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
}
