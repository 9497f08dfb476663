# Passed on to the module tpu_pools, which checks them: a second check here could only disagree with that one.

variable "tpu_type" {
  description = "Public name of the slice of each static pool, such as v5litepod-16 (or v5e-16). catalogue.json has all names. Kueue's flavor and quota use it too."
  type        = string
  default     = "v4-16"
  nullable    = false
}

variable "num_tpu_pools" {
  description = "Number of static TPU pools. (The public environment had 1. The provisioner now creates pools on demand.)"
  type        = number
  default     = 0
  nullable    = false
}

variable "tpu_node_pool_name_prefix" {
  description = "Prefix of the static pools' names, before a number."
  type        = string
  default     = "tpu-node-pool"
  nullable    = false
}

variable "multislice_group_name" {
  description = "Value of the node label MultisliceGroup. All static pools have it if there are several."
  type        = string
  default     = "multi-slice-group"
  nullable    = false
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
}

variable "tpu_reservation" {
  description = "The reservation for tpu_capacity = reservation: NAME, or projects/P/reservations/NAME for a shared one."
  type        = string
  default     = ""
  nullable    = false
}

variable "workload_policy_prefix" {
  description = "Prefix of the names of tpu7x workload policies, before a topology. The provisioner's setting of the same name must have the same value."
  type        = string
  default     = "tpu-provisioner-"
  nullable    = false
}

variable "workload_policy_topologies" {
  description = "Topologies of multi-host tpu7x slices on demand, such as 2x2x2. Each needs a workload policy before its first pool."
  type        = set(string)
  default     = []
  nullable    = false
}
