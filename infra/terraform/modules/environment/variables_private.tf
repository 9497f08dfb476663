# What a private environment needs; docs/private.md explains it. Nodes are private without any of these.

variable "control_plane_access" {
  description = "How the functions and kubectl reach the control plane: dns (its DNS endpoint, where IAM decides), or private (its private address only, from networks that lead there; the DNS endpoint takes no traffic)."
  type        = string
  default     = "dns"
  nullable    = false

  validation {
    condition     = contains(["dns", "private"], var.control_plane_access)
    error_message = "control_plane_access: choose dns or private."
  }

  validation {
    condition     = var.control_plane_access != "private" || var.enable_ip_endpoints != false
    error_message = "control_plane_access: private is an address, so set enable_ip_endpoints = true, or choose dns."
  }
}

variable "authorized_networks" {
  description = "Ranges that may reach the control plane by its addresses, as CIDR. The DNS endpoint knows no ranges. Empty: every range, or with control_plane_access = private only the cluster's own subnet."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for each in var.authorized_networks : can(cidrnetmask(each))])
    error_message = "authorized_networks: every range must be CIDR such as 10.129.0.0/20 or 203.0.113.7/32."
  }

  validation {
    condition     = length(var.authorized_networks) == 0 || var.enable_ip_endpoints != false
    error_message = "authorized_networks: limits the control plane's addresses, so set enable_ip_endpoints = true, or leave the ranges out."
  }
}

variable "network_project" {
  description = "Host project of a Shared VPC that has the network and the subnet. Empty: project_id."
  type        = string
  default     = ""
  nullable    = false

  validation {
    condition     = var.network_project == "" || can(regex("^[a-z][-a-z0-9]{4,28}[a-z0-9]$", var.network_project))
    error_message = "network_project: must be a project id of 6 to 30 lower-case letters, digits and hyphens, or be left out."
  }

  validation {
    condition     = contains(["", var.project_id], var.network_project) || (!var.create_network && (!var.create_nat || !var.enable_private_nodes))
    error_message = "network_project: the host project's owners make its network and Cloud NAT, so set create_network = false and create_nat = false."
  }
}

variable "kms_key" {
  description = "Key of Cloud KMS in this region: projects/P/locations/R/keyRings/K/cryptoKeys/N. It encrypts the cluster's Secrets, node disks, the artifacts bucket, the images' repository and the TensorBoard. Empty: Google's keys. infra/bootstrap.sh lets Google's services use it."
  type        = string
  default     = ""
  nullable    = false

  validation {
    condition     = var.kms_key == "" || can(regex("^projects/[^/]+/locations/${var.region}/keyRings/[^/]+/cryptoKeys/[^/]+$", var.kms_key))
    error_message = "kms_key: must be projects/PROJECT/locations/${var.region}/keyRings/RING/cryptoKeys/NAME, because what it encrypts is in ${var.region}."
  }

  validation {
    condition     = var.kms_key == "" || !var.create_tensorboard || var.tensorboard_region == var.region
    error_message = "kms_key: is in ${var.region}, and the TensorBoard is in ${var.tensorboard_region}; set tensorboard_region = \"${var.region}\", or create_tensorboard = false."
  }
}
