# Passed on to the module tpu_pools, which checks them: a second check here could only disagree with that one.

variable "tpu_type" {
  description = "Public name of the slice that each static pool holds, such as v5litepod-16 (or v5e-16). All names: catalogue.json. Kueue's flavor and quota follow it too."
  type        = string
  default     = "v4-16"
}

variable "num_tpu_pools" {
  description = "How many static TPU pools there are. (The public environment had 1: pools now come on demand.)"
  type        = number
  default     = 0
}

variable "tpu_node_pool_name_prefix" {
  description = "Static pools are called by this and a number."
  type        = string
  default     = "tpu-node-pool"
}

variable "multislice_group_name" {
  description = "Value of the node label MultisliceGroup, which all static pools carry when there are several."
  type        = string
  default     = "multi-slice-group"
}

variable "enable_tpu_autoscaling" {
  description = "Whether GKE's autoscaler brings static slices up for pending pods and takes them down again."
  type        = bool
  default     = false
}

variable "tpu_capacity" {
  description = "How the machines of static pools are bought: on-demand, spot or reservation."
  type        = string
  default     = "on-demand"
}

variable "tpu_reservation" {
  description = "The specific reservation of tpu_capacity = reservation: NAME, or projects/P/reservations/NAME when it is shared."
  type        = string
  default     = ""
}

variable "workload_policy_prefix" {
  description = "Workload policies of tpu7x slices are called by this and a topology. The provisioner's setting of the same name must agree."
  type        = string
  default     = "tpu-provisioner-"
}

variable "workload_policy_topologies" {
  description = "Topologies of multi-host tpu7x slices that shall come on demand, such as 2x2x2: each needs a workload policy that is there before."
  type        = set(string)
  default     = []
}
