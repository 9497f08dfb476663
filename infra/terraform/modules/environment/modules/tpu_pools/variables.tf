variable "project_id" {
  description = "Project of the cluster."
  type        = string

  validation {
    condition     = can(regex("^[a-z][-a-z0-9]{4,28}[a-z0-9]$", var.project_id))
    error_message = "project_id: give a project id: 6 to 30 lower-case letters, digits and hyphens, such as my-project."
  }
}

variable "cluster_id" {
  description = "Full name of the cluster: projects/P/locations/L/clusters/C."
  type        = string

  validation {
    condition     = can(regex("^projects/[^/]+/locations/[^/]+/clusters/[^/]+$", var.cluster_id))
    error_message = "cluster_id: give the full name, projects/PROJECT/locations/LOCATION/clusters/NAME."
  }
}

variable "region" {
  description = "Region of the cluster. Workload policies are regional."
  type        = string

  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.region))
    error_message = "region: give a region, such as us-east5."
  }
}

variable "zone" {
  description = "Zone of the TPU nodes. A multi-host slice is in exactly one zone."
  type        = string

  validation {
    condition     = can(regex("^${var.region}-[a-z0-9]+$", var.zone))
    error_message = "zone: give a zone of region ${var.region}, such as ${var.region}-b."
  }
}

variable "tpu_type" {
  description = "Public name of the slice of each pool, such as v5litepod-16 (or v5e-16). See catalogue.json."
  type        = string

  validation {
    condition     = contains(keys(local.slices), var.tpu_type)
    error_message = "tpu_type: ${var.tpu_type} is not a slice of the catalogue. Choose one of: ${lookup(local.names, split("-", var.tpu_type)[0], local.forms)}."
  }
}

variable "num_tpu_pools" {
  description = "Number of static pools, each with one slice. 0 removes them all."
  type        = number
  default     = 0

  validation {
    condition     = var.num_tpu_pools >= 0 && var.num_tpu_pools <= 100 && floor(var.num_tpu_pools) == var.num_tpu_pools
    error_message = "num_tpu_pools: give a whole number, at least 0 and at most 100."
  }
}

variable "tpu_node_pool_name_prefix" {
  description = "Prefix of the pools' names, before a number: tpu-node-pool-0."
  type        = string
  default     = "tpu-node-pool"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,36}$", var.tpu_node_pool_name_prefix))
    error_message = "tpu_node_pool_name_prefix: give at most 37 lower-case letters, digits and hyphens, a letter first: GKE allows 40 with the number."
  }
}

variable "multislice_group_name" {
  description = "Value of the node label MultisliceGroup. All static pools have it if there are several."
  type        = string
  default     = "multi-slice-group"

  validation {
    condition     = can(regex("^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$", var.multislice_group_name))
    error_message = "multislice_group_name: give a label value: at most 63 letters, digits, '-', '_' and '.', a letter or digit at both ends."
  }
}

variable "enable_tpu_autoscaling" {
  description = "Whether GKE's autoscaler creates the nodes of each slice for a pending pod and deletes them again. Pools then start empty."
  type        = bool
  default     = false
}

variable "tpu_capacity" {
  description = "Capacity of the machines: on-demand, spot or reservation. Only the provisioner can use flex-start, because the provider cannot send the upgrade strategy that flex-start needs."
  type        = string
  default     = "on-demand"

  validation {
    condition     = contains(["on-demand", "spot", "reservation"], var.tpu_capacity)
    error_message = "tpu_capacity: choose on-demand, spot or reservation."
  }
}

variable "tpu_reservation" {
  description = "The reservation for tpu_capacity = reservation: NAME, or projects/P/reservations/NAME for a shared one."
  type        = string
  default     = ""

  validation {
    condition     = (var.tpu_capacity == "reservation") == (var.tpu_reservation != "")
    error_message = "tpu_reservation: name a reservation if tpu_capacity is reservation, and only then."
  }
  validation {
    condition     = can(regex("^$|^(projects/[^/]+/reservations/)?[a-z][a-z0-9-]*(/reservationBlocks/[^/]+(/reservationSubBlocks/[^/]+)?)?$", var.tpu_reservation))
    error_message = "tpu_reservation: give NAME or projects/P/reservations/NAME, followed by /reservationBlocks/B if needed."
  }
}

variable "node_service_account" {
  description = "E-mail of the Google service account that the nodes run as."
  type        = string

  validation {
    condition     = can(regex("^[^@]+@[^@]+$", var.node_service_account))
    error_message = "node_service_account: give the e-mail of a Google service account."
  }
}

variable "max_pods_per_node" {
  description = "Pods per node. GKE reserves twice as many addresses for each node, rounded up to a power of two."
  type        = number
  default     = 110

  validation {
    condition     = var.max_pods_per_node >= 8 && var.max_pods_per_node <= 256
    error_message = "max_pods_per_node: give at least 8 and at most 256."
  }
}

variable "on_release_channel" {
  description = "Whether the cluster uses a release channel. GKE then requires automatic upgrades, so the pools delay them instead of disabling them."
  type        = bool
  default     = true
}

variable "workload_policy_prefix" {
  description = "Prefix of the names of workload policies, before a topology. The provisioner's setting of the same name must have the same value."
  type        = string
  default     = "tpu-provisioner-"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,50}$", var.workload_policy_prefix))
    error_message = "workload_policy_prefix: give at most 51 lower-case letters, digits and hyphens, a letter first."
  }
}

variable "workload_policy_topologies" {
  description = "Topologies that get a workload policy, for pools on demand. Each topology of multi-host tpu7x slices needs one. The create of a pool does not create it."
  type        = set(string)
  default     = []

  validation {
    condition     = length(setsubtract(var.workload_policy_topologies, local.topologies_by_policy)) == 0
    error_message = "workload_policy_topologies: choose multi-host topologies of tpu7x, such as 2x2x2, 2x4x4, 4x4x4, 4x4x8 (see catalogue.json)."
  }
}

variable "boot_disk_kms_key" {
  description = "Key of Cloud KMS for the nodes' disks: projects/P/locations/R/keyRings/K/cryptoKeys/N. null: Google's keys."
  type        = string
  default     = null

  validation {
    condition     = var.boot_disk_kms_key == null || can(regex("^projects/[^/]+/locations/${var.region}/keyRings/[^/]+/cryptoKeys/[^/]+$", var.boot_disk_kms_key))
    error_message = "boot_disk_kms_key: must be projects/PROJECT/locations/${var.region}/keyRings/RING/cryptoKeys/NAME, or null."
  }
}
