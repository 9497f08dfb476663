# The same as of ../modules/environment, which checks them.

variable "create_network" {
  description = "Whether network and subnet are created. If not, both must exist, and the subnet must have both secondary ranges."
  type        = bool
  default     = true
}

variable "network_name" {
  description = "Name of the network."
  type        = string
}

variable "subnet_name" {
  description = "Name of the subnet."
  type        = string
}

variable "subnet_ip_range" {
  description = "Addresses of the nodes, as a CIDR range."
  type        = string
  default     = "10.129.0.0/20"
}

variable "pods_ip_range" {
  description = "Addresses of the pods, as a CIDR range. (The public environment had a /20, which holds 16 nodes of 110 pods: less than one v5e-64 slice and its CPU nodes.)"
  type        = string
  default     = "10.132.0.0/14"
}

variable "services_ip_range" {
  description = "Addresses of the services, as a CIDR range."
  type        = string
  default     = "192.168.80.0/20"
}

variable "pods_range_name" {
  description = "Name of the subnet's secondary range for pods."
  type        = string
  default     = "pods"
}

variable "services_range_name" {
  description = "Name of the subnet's secondary range for services."
  type        = string
  default     = "services"
}

variable "create_nat" {
  description = "Whether Cloud NAT is created for private nodes. Set false if the network already has one in this region."
  type        = bool
  default     = true
}
