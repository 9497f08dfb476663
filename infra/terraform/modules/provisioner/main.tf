# The functions, their source, and who may call them.

locals {
  functions = ["collect", "provision"]
  # Also how long Pub/Sub and Cloud Scheduler wait for an answer. The functions answer within 55 seconds.
  timeout_seconds = 60
  # Threads are what one instance serves at once; more requests than threads would queue where nobody sees them. 16
  # deliveries work, and the other threads are for ends of operations and ticks, and to say quickly that the instance is full.
  threads = 80

  # A variable that is not a setting stops a function's start, so only what exists is set.
  settings_free = [
    "allowed_accelerators", "allowed_label_prefixes", "allowed_namespaces", "allowed_node_networks",
    "allowed_reservations", "capacity_policies", "copy_labels", "creation_seconds_max",
    "deletions_per_minute_max", "flex_start_wait_seconds", "force_on_demand", "grace_seconds", "idle_seconds",
    "idle_seconds_max", "kinds", "kueue_admission_check", "limit_chips", "limit_chips_per_namespace",
    "node_additional_networks", "node_boot_disk_kms_key", "node_confidential_storage",
    "node_daemonsets_cpu_millis", "node_daemonsets_memory_mib", "node_disk_size_gb", "node_disk_size_gb_max",
    "node_disk_type", "node_max_pods", "node_resources", "node_secondary_boot_disk", "node_secure_boot", "node_tags",
    "node_workload_identity", "resource_labels", "workload_policy_prefix",
  ]
  # The destroy build deletes no node pool whose label names another deployment (infra/build/in_use.py).
  answers_kueue = lookup(var.settings, "kueue_admission_check", "false") == "true"
  resource_labels = merge(
    jsondecode(lookup(var.settings, "resource_labels", "{}")),
    { tpu-provisioner-deployment = "${var.project_id}_${var.name}" },
  )
  settings = merge(
    {
      for key, value in merge(var.settings, { resource_labels = jsonencode(local.resource_labels) }) :
      "TPU_PROVISIONER_${upper(key)}" => value
    },
    {
      TPU_PROVISIONER_CLUSTERS = jsonencode({
        for key, each in local.clusters :
        local.cluster_paths[key] => { zone = each.zone, private = each.endpoint == "private" }
      })
      TPU_PROVISIONER_NODE_SERVICE_ACCOUNT          = var.node_service_accounts[0]
      TPU_PROVISIONER_ALLOWED_NODE_SERVICE_ACCOUNTS = join(",", var.node_service_accounts)
      TPU_PROVISIONER_OWN_NAMESPACE                 = local.exporter_namespace
    },
  )
}

resource "google_storage_bucket" "source" {
  project                     = var.project_id
  name                        = "${var.project_id}-${var.name}-functions"
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  # Only archives that can be made again; a deleted one must not be kept (and paid) for a week.
  force_destroy = true

  soft_delete_policy {
    retention_duration_seconds = 0
  }

  dynamic "encryption" {
    for_each = local.kms_key[*]
    content {
      default_kms_key_name = encryption.value
    }
  }

  lifecycle {
    # Functions are built from a bucket of any region, so it stays where it is if they move. A new one would have the
    # name of the old one, which Google may not give again for minutes.
    ignore_changes = [location]

    postcondition {
      condition     = local.kms_key == null || lower(self.location) == var.region
      error_message = "services_kms_key: a key of ${var.region} cannot encrypt the bucket ${self.name} in ${lower(self.location)}, which holds only the functions' source. Delete it with: gcloud storage rm --recursive gs://${self.name}. Then the next apply makes it in ${var.region}."
    }
  }
}

# The name follows the content: a changed source is a new object, an unchanged one changes nothing.
resource "google_storage_bucket_object" "source" {
  bucket = google_storage_bucket.source.name
  name   = "functions-${substr(filesha256(var.functions_archive), 0, 16)}.zip"
  source = var.functions_archive
}

# It alone creates, in one instance: so room under a limit and free operations of GKE are counted in one process, which
# each tick needs again.
resource "google_cloudfunctions2_function" "provision" {
  project      = var.project_id
  location     = var.region
  name         = "${var.name}-provision"
  description  = local.accounts.provision
  kms_key_name = local.kms_key

  build_config {
    runtime           = "python313"
    entry_point       = "provision"
    docker_repository = local.repository
    service_account   = "projects/${var.project_id}/serviceAccounts/${local.emails.build}"
    worker_pool       = var.build_worker_pool == "" ? null : var.build_worker_pool

    source {
      storage_source {
        bucket = google_storage_bucket.source.name
        object = google_storage_bucket_object.source.name
      }
    }
  }

  service_config {
    service_account_email            = local.emails.provision
    available_cpu                    = "1" # more than one request at a time needs a whole one
    available_memory                 = "1Gi"
    timeout_seconds                  = local.timeout_seconds
    max_instance_count               = 1
    min_instance_count               = 1
    max_instance_request_concurrency = local.threads
    # Pub/Sub and Cloud Scheduler of the same project count as internal, by the run.app address that they are given
    # (https://cloud.google.com/run/docs/securing/ingress#settings). Everybody else is refused before IAM is asked.
    ingress_settings               = "ALLOW_INTERNAL_ONLY" # assumes: ingress
    all_traffic_on_latest_revision = true
    direct_vpc_egress              = local.egress_settings[var.functions_egress]
    environment_variables          = merge(local.settings, { THREADS = tostring(local.threads), WORKERS = "1" })

    dynamic "direct_vpc_network_interface" {
      for_each = data.google_compute_subnetwork.functions
      content {
        network    = regex("projects/[^/]+/global/networks/[^/]+$", direct_vpc_network_interface.value.network)
        subnetwork = local.functions_subnet
      }
    }
  }

}

# After `provision`, so that a release that reads pools in another way deletes none before the new ones are made in it.
# The same as above: what both have is said twice, because a resource of a group cannot wait for another of the group.
resource "google_cloudfunctions2_function" "collect" {
  project      = var.project_id
  location     = var.region
  name         = "${var.name}-collect"
  description  = local.accounts.collect
  kms_key_name = local.kms_key

  build_config {
    runtime           = "python313"
    entry_point       = "collect"
    docker_repository = local.repository
    service_account   = "projects/${var.project_id}/serviceAccounts/${local.emails.build}"
    worker_pool       = var.build_worker_pool == "" ? null : var.build_worker_pool

    source {
      storage_source {
        bucket = google_storage_bucket.source.name
        object = google_storage_bucket_object.source.name
      }
    }
  }

  service_config {
    service_account_email            = local.emails.collect
    available_cpu                    = "1" # more than one request at a time needs a whole one
    available_memory                 = "1Gi"
    timeout_seconds                  = local.timeout_seconds
    max_instance_count               = 1
    min_instance_count               = 1
    max_instance_request_concurrency = local.threads
    # Pub/Sub and Cloud Scheduler of the same project count as internal, by the run.app address that they are given
    # (https://cloud.google.com/run/docs/securing/ingress#settings). Everybody else is refused before IAM is asked.
    ingress_settings               = "ALLOW_INTERNAL_ONLY" # assumes: ingress
    all_traffic_on_latest_revision = true
    direct_vpc_egress              = local.egress_settings[var.functions_egress]
    environment_variables          = merge(local.settings, { THREADS = tostring(local.threads), WORKERS = "1" })

    dynamic "direct_vpc_network_interface" {
      for_each = data.google_compute_subnetwork.functions
      content {
        network    = regex("projects/[^/]+/global/networks/[^/]+$", direct_vpc_network_interface.value.network)
        subnetwork = local.functions_subnet
      }
    }
  }

  depends_on = [google_cloudfunctions2_function.provision]
}

locals {
  deployed = {
    provision = google_cloudfunctions2_function.provision
    collect   = google_cloudfunctions2_function.collect
  }
}

# A binding and not a member: no other account may call, also if it had the right before.
resource "google_cloud_run_v2_service_iam_binding" "invokers" {
  for_each = local.deployed

  project  = var.project_id
  location = each.value.location
  name     = each.value.name
  role     = "roles/run.invoker"
  members  = ["serviceAccount:${local.emails.push}", "serviceAccount:${local.emails.scheduler}"]
}
