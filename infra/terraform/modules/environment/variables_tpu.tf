# Static TPU pools.

variable "tpu_type" {
  description = "Public name of the slice of each static pool, such as v5litepod-16 (or v5e-16). catalogue.json has all names. Kueue's flavor and quota use it too."
  type        = string
  default     = "v4-16"
  nullable    = false

  validation {
    condition     = contains(keys(local.slices), var.tpu_type)
    error_message = "tpu_type: ${var.tpu_type} is not a slice of the catalogue. Choose one of: ${lookup(local.tpu_names, split("-", var.tpu_type)[0], local.tpu_forms)}."
  }
}

variable "num_tpu_pools" {
  description = "Number of static TPU pools. (The public environment had 1. The provisioner now creates pools on demand.)"
  type        = number
  default     = 0
  nullable    = false

  validation {
    condition     = var.num_tpu_pools >= 0 && var.num_tpu_pools <= 100 && floor(var.num_tpu_pools) == var.num_tpu_pools
    error_message = "num_tpu_pools: give a whole number, at least 0 and at most 100."
  }
}

variable "tpu_node_pool_name_prefix" {
  description = "Prefix of the static pools' names, before a number."
  type        = string
  default     = "tpu-node-pool"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,36}$", var.tpu_node_pool_name_prefix))
    error_message = "tpu_node_pool_name_prefix: give at most 37 lower-case letters, digits and hyphens, a letter first: GKE allows 40 with the number."
  }
}

variable "multislice_group_name" {
  description = "Value of the node label MultisliceGroup. All static pools have it if there are several."
  type        = string
  default     = "multi-slice-group"
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$", var.multislice_group_name))
    error_message = "multislice_group_name: give a label value: at most 63 letters, digits, '-', '_' and '.', a letter or digit at both ends."
  }
}

variable "enable_tpu_autoscaling" {
  description = "Whether GKE's autoscaler creates the nodes of static slices for pending pods and deletes them again."
  type        = bool
  default     = false
  nullable    = false
}

variable "tpu_capacity" {
  description = "Capacity of the machines of static pools: on-demand, spot or reservation."
  type        = string
  default     = "on-demand"
  nullable    = false

  validation {
    condition     = contains(["on-demand", "spot", "reservation"], var.tpu_capacity)
    error_message = "tpu_capacity: choose on-demand, spot or reservation."
  }
}

variable "tpu_reservation" {
  description = "The reservation for tpu_capacity = reservation: NAME, or projects/P/reservations/NAME for a shared one."
  type        = string
  default     = ""
  nullable    = false

  validation {
    condition     = (var.tpu_capacity == "reservation") == (var.tpu_reservation != "")
    error_message = "tpu_reservation: name a reservation if tpu_capacity is reservation, and only then."
  }
  validation {
    condition     = can(regex("^$|^(projects/[^/]+/reservations/)?[a-z][a-z0-9-]*(/reservationBlocks/[^/]+(/reservationSubBlocks/[^/]+)?)?$", var.tpu_reservation))
    error_message = "tpu_reservation: give NAME or projects/P/reservations/NAME, followed by /reservationBlocks/B if needed."
  }
}

variable "workload_policy_prefix" {
  description = "Prefix of the names of tpu7x workload policies, before a topology. The provisioner's setting of the same name must have the same value."
  type        = string
  default     = "tpu-provisioner-"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,50}$", var.workload_policy_prefix))
    error_message = "workload_policy_prefix: give at most 51 lower-case letters, digits and hyphens, a letter first."
  }
}

variable "workload_policy_topologies" {
  description = "Topologies of multi-host tpu7x slices on demand, such as 2x2x2. Each needs a workload policy before its first pool."
  type        = set(string)
  default     = []
  nullable    = false

  validation {
    condition     = length(setsubtract(var.workload_policy_topologies, local.topologies_by_policy)) == 0
    error_message = "workload_policy_topologies: choose multi-host topologies of tpu7x, such as 2x2x2, 2x4x4, 4x4x4, 4x4x8 (see catalogue.json)."
  }
}
