# What a private environment needs; docs/private.md explains it. Without these, nothing changes.

variable "control_plane_access" {
  description = "How the functions and kubectl reach the control plane: dns (its DNS endpoint, where IAM decides), or private (its private address only, from networks that lead there; the DNS endpoint takes no traffic)."
  type        = string
  default     = "dns"

  validation {
    condition     = contains(["dns", "private"], var.control_plane_access)
    error_message = "control_plane_access: choose dns or private."
  }

  validation {
    condition     = var.control_plane_access != "private" || var.enable_ip_endpoints
    error_message = "control_plane_access: private is an address, so set enable_ip_endpoints = true, or choose dns."
  }
}

variable "authorized_networks" {
  description = "Ranges that may reach the control plane by its addresses, as CIDR. The DNS endpoint knows no ranges. Empty: every range, or with control_plane_access = private only the cluster's own subnet."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for each in var.authorized_networks : can(cidrnetmask(each))])
    error_message = "authorized_networks: every range must be CIDR such as 10.129.0.0/20 or 203.0.113.7/32."
  }

  validation {
    condition     = length(var.authorized_networks) == 0 || var.enable_ip_endpoints
    error_message = "authorized_networks: limits the control plane's addresses, so set enable_ip_endpoints = true, or leave the ranges out."
  }
}
