variable "create_network" {
  description = "Whether network and subnet are created. If not, both must exist, and the subnet must have both secondary ranges."
  type        = bool
  default     = true
  nullable    = false
}

variable "network_name" {
  description = "Name of the network."
  type        = string

  validation {
    condition     = can(regex("^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$", var.network_name))
    error_message = "network_name: must be at most 63 lower-case letters, digits and hyphens, beginning with a letter."
  }
}

variable "subnet_name" {
  description = "Name of the subnet."
  type        = string

  validation {
    condition     = can(regex("^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$", var.subnet_name))
    error_message = "subnet_name: must be at most 63 lower-case letters, digits and hyphens, beginning with a letter."
  }
}

variable "subnet_ip_range" {
  description = "Addresses of the nodes, as a CIDR range."
  type        = string
  default     = "10.129.0.0/20"
  nullable    = false

  validation {
    condition     = can(cidrnetmask(var.subnet_ip_range))
    error_message = "subnet_ip_range: must be an IPv4 range such as 10.129.0.0/20."
  }
}

variable "pods_ip_range" {
  description = "Addresses of the pods, as a CIDR range. (The public environment had a /20, which holds 16 nodes of 110 pods: less than one v5e-64 slice and its CPU nodes.)"
  type        = string
  default     = "10.132.0.0/14"
  nullable    = false

  validation {
    condition     = can(cidrnetmask(var.pods_ip_range))
    error_message = "pods_ip_range: must be an IPv4 range such as 10.132.0.0/14."
  }
}

variable "services_ip_range" {
  description = "Addresses of the services, as a CIDR range."
  type        = string
  default     = "192.168.80.0/20"
  nullable    = false

  validation {
    condition     = can(cidrnetmask(var.services_ip_range))
    error_message = "services_ip_range: must be an IPv4 range such as 192.168.80.0/20."
  }
}

variable "pods_range_name" {
  description = "Name of the subnet's secondary range for pods."
  type        = string
  default     = "pods"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$", var.pods_range_name))
    error_message = "pods_range_name: must be at most 63 lower-case letters, digits and hyphens, beginning with a letter."
  }
}

variable "services_range_name" {
  description = "Name of the subnet's secondary range for services."
  type        = string
  default     = "services"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$", var.services_range_name)) && var.services_range_name != var.pods_range_name
    error_message = "services_range_name: must be at most 63 lower-case letters, digits and hyphens, beginning with a letter, and not the name of the pods' range."
  }
}

variable "create_nat" {
  description = "Whether Cloud NAT is created for private nodes. Set false if the network already has one in this region."
  type        = bool
  default     = true
  nullable    = false
}
