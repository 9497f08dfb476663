# Static TPU pools: slices that exist before a workload needs them. Pools that come on demand are the
# provisioner's; it knows its own by the label google.com/nodepool-manager, which no static pool carries.

locals {
  # Written from the functions' own catalogue, so that machine, topology and number of nodes cannot disagree.
  catalogue = jsondecode(file("${path.module}/catalogue.json"))
  slices = merge([
    for machine_type, machine in local.catalogue.machines : {
      for name, slice in machine.slices : name => {
        machine_type   = machine_type
        generation     = machine.generation
        boot_disk_type = machine.boot_disk_type
        accelerator    = machine.accelerator
        topology       = slice.topology
        nodes          = slice.nodes
        chips          = slice.nodes * machine.chips_per_host
        placement      = slice.placement
      }
    }
  ]...)
  topologies_by_policy = toset([for slice in values(local.slices) : slice.topology if slice.placement == "workload-policy"])

  # For the message about a wrong name: the names by count of each generation, and the forms of all.
  prefixes = distinct([for name in keys(local.slices) : split("-", name)[0]])
  tpu_names = { for prefix in local.prefixes : prefix => join(", ", [
    for name in keys(local.slices) : name if startswith(name, "${prefix}-") && !strcontains(trimprefix(name, "${prefix}-"), "x")
  ]) }
  tpu_forms = join(", ", [for prefix in local.prefixes : "${prefix}-N"])

  slice     = local.slices[var.tpu_type]
  by_policy = local.slice.placement == "workload-policy"
  multislice_labels = var.num_tpu_pools > 1 ? {
    MultisliceGroup     = var.multislice_group_name
    MultisliceGroupSize = tostring(var.num_tpu_pools)
  } : {}
  policy_topologies = setunion(
    var.workload_policy_topologies,
    local.by_policy && var.num_tpu_pools > 0 ? [local.slice.topology] : [],
  )
}

# How the hosts of a tpu7x slice are put together; earlier generations get a compact placement from GKE itself.
# One policy serves every pool of its topology. https://cloud.google.com/kubernetes-engine/docs/concepts/tpu-ironwood
resource "google_compute_resource_policy" "slice" {
  for_each = local.policy_topologies

  project     = var.project_id
  region      = var.region
  name        = "${var.workload_policy_prefix}${each.value}"
  description = "Puts the hosts of one ${each.value} slice together."

  workload_policy {
    type                 = "HIGH_THROUGHPUT"
    accelerator_topology = each.value
  }
}

resource "google_container_node_pool" "tpu" {
  count = var.num_tpu_pools

  project        = var.project_id
  cluster        = google_container_cluster.this.id
  name           = "${var.tpu_node_pool_name_prefix}-${count.index}"
  node_locations = [var.zone]

  # Not node_count: Terraform would try to resize a slice that has lost a host, and GKE refuses to resize a slice.
  initial_node_count = var.enable_tpu_autoscaling ? 0 : local.slice.nodes
  max_pods_per_node  = var.max_pods_per_node

  dynamic "autoscaling" {
    for_each = var.enable_tpu_autoscaling ? [local.slice.nodes] : []
    content {
      # Per zone, never in total: GKE holds the per-zone maximum against the topology.
      min_node_count  = 0
      max_node_count  = autoscaling.value
      location_policy = "ANY"
    }
  }

  management {
    auto_repair  = true
    auto_upgrade = local.on_release_channel
  }

  # An upgrade restarts the whole slice. A release channel does not allow to turn upgrades off, only to put them off.
  dynamic "maintenance_policy" {
    for_each = local.on_release_channel ? [true] : []
    content {
      exclusion_until_end_of_support {
        enabled = maintenance_policy.value
      }
    }
  }

  dynamic "placement_policy" {
    for_each = local.slice.placement == "none" ? [] : [local.slice.topology]
    content {
      # GKE keeps no type beside a workload policy; any other text would replace the pool on every apply.
      type         = local.by_policy ? "" : "COMPACT"
      policy_name  = local.by_policy ? google_compute_resource_policy.slice[placement_policy.value].name : null
      tpu_topology = placement_policy.value
    }
  }

  node_config {
    machine_type      = local.slice.machine_type
    disk_type         = local.slice.boot_disk_type
    boot_disk_kms_key = local.kms_key
    spot              = var.tpu_capacity == "spot"
    service_account   = var.node_service_account
    oauth_scopes      = local.scopes
    labels            = local.multislice_labels
    metadata          = { disable-legacy-endpoints = "true" }

    shielded_instance_config {
      enable_secure_boot          = true
      enable_integrity_monitoring = true
    }

    workload_metadata_config {
      mode = "GKE_METADATA"
    }

    # GKE adds the taint google.com/tpu by itself, but on Standard clusters not the one for spot.
    dynamic "taint" {
      for_each = var.tpu_capacity == "spot" ? ["cloud.google.com/gke-spot"] : []
      content {
        key    = taint.value
        value  = "true"
        effect = "NO_SCHEDULE"
      }
    }

    dynamic "reservation_affinity" {
      for_each = var.tpu_capacity == "reservation" ? [var.tpu_reservation] : []
      content {
        consume_reservation_type = "SPECIFIC_RESERVATION"
        key                      = "compute.googleapis.com/reservation-name"
        values                   = [reservation_affinity.value]
      }
    }
  }

  timeouts {
    create = "60m" # a stockout alone holds a create for 35 minutes
    delete = "60m"
  }

  lifecycle {
    ignore_changes = [
      # GKE turns simultaneous multithreading off on TPU hosts and says so. To remove what it said would replace the
      # pool: https://github.com/vllm-project/ci-infra/blob/main/terraform/gcp_old/tpu-inference/k8s/workers.tf
      node_config[0].advanced_machine_features,
      node_config[0].guest_accelerator,
      node_config[0].kubelet_config,
    ]
  }
}
