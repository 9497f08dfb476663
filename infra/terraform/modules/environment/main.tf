# A regional cluster and its CPU pool. Namespaces, JobSet and Kueue are not installed here but by the build script, with
# kubectl: a Kubernetes provider in the state of the cluster that it needs breaks both plan and destroy.

locals {
  on_release_channel = var.gke_release_channel != "UNSPECIFIED"
  cpu_pool_zones     = length(var.cpu_pool_zones) > 0 ? var.cpu_pool_zones : [var.zone]
  by_address         = var.control_plane_access == "private"
  with_addresses     = var.enable_ip_endpoints != null ? var.enable_ip_endpoints : local.by_address || length(var.authorized_networks) > 0
  kms_key            = var.kms_key == "" ? null : var.kms_key
  scopes             = ["https://www.googleapis.com/auth/cloud-platform"]
}

resource "google_container_cluster" "this" {
  project     = var.project_id
  name        = var.cluster_name
  description = var.cluster_description
  location    = var.region

  # Where pools go that name no zone. TPU pools always name theirs.
  node_locations = local.cpu_pool_zones

  deletion_protection   = var.deletion_protection
  enable_shielded_nodes = true
  datapath_provider     = "ADVANCED_DATAPATH" # enforces network policies without an add-on
  min_master_version    = var.gke_version

  network         = local.network_path
  subnetwork      = local.subnet_path
  networking_mode = "VPC_NATIVE"

  ip_allocation_policy {
    cluster_secondary_range_name  = var.pods_range_name
    services_secondary_range_name = var.services_range_name
  }

  # The pool that GKE insists on is made with the nodes' own account, as the default one may be disabled, and removed.
  # Its node is one of the CPU pool's kind, which comes after it, so that it needs no more quota than that pool.
  remove_default_node_pool = true
  initial_node_count       = 1
  node_config {
    machine_type      = var.cpu_pool_machine_type
    disk_type         = var.cpu_pool_disk_type
    disk_size_gb      = var.cpu_pool_disk_size
    service_account   = var.node_service_account
    oauth_scopes      = local.scopes
    boot_disk_kms_key = local.kms_key
  }

  dynamic "database_encryption" {
    for_each = local.kms_key[*]
    content {
      state    = "ENCRYPTED"
      key_name = database_encryption.value
    }
  }

  release_channel {
    channel = var.gke_release_channel
  }

  # GKE wants 48 hours in any 32 days, and counts windows of at least four hours
  # (https://cloud.google.com/kubernetes-engine/docs/how-to/maintenance-windows-and-exclusions).
  dynamic "maintenance_policy" {
    for_each = var.maintenance_window[*]
    content {
      recurring_window {
        start_time = maintenance_policy.value.start_time
        end_time   = maintenance_policy.value.end_time
        recurrence = maintenance_policy.value.recurrence
      }
    }
  }

  workload_identity_config {
    workload_pool = "${var.project_id}.svc.id.goog"
  }

  # The functions come by the DNS endpoint: its certificate is public, and IAM decides who gets through. With
  # control_plane_access = "private" they come by the private address.
  control_plane_endpoints_config {
    dns_endpoint_config {
      allow_external_traffic = var.control_plane_access == "dns"
    }
    ip_endpoints_config {
      enabled = local.with_addresses
    }
  }

  dynamic "private_cluster_config" {
    for_each = var.enable_private_nodes || local.by_address ? [true] : []
    content {
      enable_private_nodes    = var.enable_private_nodes
      enable_private_endpoint = local.by_address ? true : null

      # The functions may be in another region than the cluster.
      dynamic "master_global_access_config" {
        for_each = local.by_address ? [true] : []
        content {
          enabled = master_global_access_config.value
        }
      }
    }
  }

  # GKE wants this block where only the private address is used; without ranges it admits the cluster's own subnet.
  dynamic "master_authorized_networks_config" {
    for_each = local.by_address || length(var.authorized_networks) > 0 ? [true] : []
    content {
      gcp_public_cidrs_access_enabled = false

      dynamic "cidr_blocks" {
        for_each = toset(var.authorized_networks)
        content {
          cidr_block = cidr_blocks.value
        }
      }
    }
  }

  logging_config {
    enable_components = ["SYSTEM_COMPONENTS", "WORKLOADS"]
  }

  monitoring_config {
    enable_components = ["SYSTEM_COMPONENTS"]
    managed_prometheus {
      enabled = true # reads the exporter's metrics
    }
  }

  addons_config {
    gcs_fuse_csi_driver_config {
      enabled = true # mounts the bucket into training pods
    }
  }

  lifecycle {
    # node_config is of the pool that was removed. An update of the cluster's zones moves the nodes of all pools, also of
    # those that the provisioner created (https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/ClusterUpdate).
    ignore_changes = [node_config, node_locations]
  }

  depends_on = [
    google_compute_subnetwork.this,
    data.google_compute_subnetwork.existing,
    google_compute_router_nat.this, # private nodes fetch their first images through it
  ]
}

resource "google_container_node_pool" "cpu" {
  project           = var.project_id
  cluster           = google_container_cluster.this.id
  name              = "cpu-node-pool"
  node_locations    = local.cpu_pool_zones
  node_count        = var.cpu_pool_node_count
  max_pods_per_node = var.max_pods_per_node

  management {
    auto_repair  = true
    auto_upgrade = true
  }

  node_config {
    machine_type      = var.cpu_pool_machine_type
    disk_type         = var.cpu_pool_disk_type
    disk_size_gb      = var.cpu_pool_disk_size
    boot_disk_kms_key = local.kms_key
    service_account   = var.node_service_account
    oauth_scopes      = local.scopes
    metadata          = { disable-legacy-endpoints = "true" }

    shielded_instance_config {
      enable_secure_boot          = true
      enable_integrity_monitoring = true
    }

    workload_metadata_config {
      mode = "GKE_METADATA"
    }
  }

  lifecycle {
    # GKE fills in kubelet_config.
    ignore_changes       = [node_config[0].kubelet_config]
    replace_triggered_by = [google_container_cluster.this.id]
  }
}
