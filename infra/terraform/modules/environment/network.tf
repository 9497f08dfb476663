# Where the cluster lives: a network of its own, or one that is there. Private Google Access lets nodes without a
# public address reach Google's APIs and images; everything else they fetch goes through Cloud NAT.

locals {
  network_project = var.network_project == "" ? var.project_id : var.network_project
  network_path    = "projects/${local.network_project}/global/networks/${var.network_name}"
  subnet_path     = "projects/${local.network_project}/regions/${var.region}/subnetworks/${var.subnet_name}"

  # GKE sets aside the next power of two above twice max_pods_per_node for every node, so that addresses are not
  # used again at once: https://cloud.google.com/kubernetes-engine/docs/concepts/alias-ips#cluster_sizing
  addresses_per_node = pow(2, ceil(log(2 * var.max_pods_per_node, 2)))
  nodes_at_most      = floor(pow(2, 32 - tonumber(split("/", var.pods_ip_range)[1])) / local.addresses_per_node)
  nodes_planned      = var.cpu_pool_node_count * length(local.cpu_pool_zones) + var.num_tpu_pools * local.slice.nodes
}

resource "google_compute_network" "this" {
  count = var.create_network ? 1 : 0

  project                 = var.project_id
  name                    = var.network_name
  auto_create_subnetworks = false
  routing_mode            = "REGIONAL"
}

resource "google_compute_subnetwork" "this" {
  count = var.create_network ? 1 : 0

  project                  = var.project_id
  region                   = var.region
  name                     = var.subnet_name
  network                  = google_compute_network.this[0].id
  ip_cidr_range            = var.subnet_ip_range
  private_ip_google_access = true

  secondary_ip_range {
    range_name    = var.pods_range_name
    ip_cidr_range = var.pods_ip_range
  }

  secondary_ip_range {
    range_name    = var.services_range_name
    ip_cidr_range = var.services_ip_range
  }

  lifecycle {
    precondition {
      condition     = local.nodes_planned <= local.nodes_at_most
      error_message = "pods_ip_range: ${var.pods_ip_range} has room for ${local.nodes_at_most} nodes of ${var.max_pods_per_node} pods, and ${local.nodes_planned} are planned before any pool on demand. Give a larger range, or reduce max_pods_per_node."
    }
  }
}

data "google_compute_subnetwork" "existing" {
  count = var.create_network ? 0 : 1

  project = local.network_project
  region  = var.region
  name    = var.subnet_name

  lifecycle {
    postcondition {
      condition     = length(setsubtract([var.pods_range_name, var.services_range_name], self.secondary_ip_range[*].range_name)) == 0
      error_message = "subnet_name: subnet ${var.subnet_name} must have the secondary ranges ${var.pods_range_name} and ${var.services_range_name}; add them, or set pods_range_name and services_range_name to the names of its ranges."
    }
    postcondition {
      condition     = self.private_ip_google_access || !var.enable_private_nodes
      error_message = "subnet_name: private nodes need Private Google Access: gcloud compute networks subnets update ${var.subnet_name} --project ${local.network_project} --region ${var.region} --enable-private-ip-google-access"
    }
  }
}

resource "google_compute_router" "this" {
  count = var.enable_private_nodes && var.create_nat ? 1 : 0

  project = var.project_id
  region  = var.region
  name    = "${var.cluster_name}-router"
  network = var.create_network ? google_compute_network.this[0].id : data.google_compute_subnetwork.existing[0].network

}

resource "google_compute_router_nat" "this" {
  count = var.enable_private_nodes && var.create_nat ? 1 : 0

  project                            = var.project_id
  region                             = var.region
  name                               = "${var.cluster_name}-nat"
  router                             = google_compute_router.this[0].name
  nat_ip_allocate_option             = "AUTO_ONLY"
  source_subnetwork_ip_ranges_to_nat = "LIST_OF_SUBNETWORKS"

  subnetwork {
    name                    = var.create_network ? google_compute_subnetwork.this[0].id : data.google_compute_subnetwork.existing[0].self_link
    source_ip_ranges_to_nat = ["ALL_IP_RANGES"]
  }

  log_config {
    enable = true
    filter = "ERRORS_ONLY"
  }
}
