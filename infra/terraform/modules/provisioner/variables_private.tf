# What a private deployment needs; docs/private.md explains it. Without these, nothing is private and nothing changes.

variable "functions_egress" {
  type        = string
  description = "What the functions send through a network of yours: none, all, or private-ranges-only (internal addresses: enough for a private endpoint, and Google's APIs stay outside)."
  default     = "none"
  nullable    = false

  validation {
    condition     = contains(["none", "all", "private-ranges-only"], var.functions_egress)
    error_message = "functions_egress: choose none, all or private-ranges-only."
  }

  validation {
    condition     = var.functions_egress == "none" || var.functions_subnet != "" || anytrue([for each in var.clusters : startswith(each.location, var.region)])
    error_message = "functions_egress: no cluster is in the functions' region ${var.region}, so set functions_subnet to a subnet there."
  }

  validation {
    condition     = var.functions_egress != "none" || var.functions_subnet == ""
    error_message = "functions_egress: is none, so functions_subnet would do nothing; set it to all or private-ranges-only too."
  }

  validation {
    condition     = var.functions_egress != "none" || alltrue([for each in var.clusters : each.endpoint != "private"])
    error_message = "functions_egress: is none, and the endpoint of a cluster is private, which only functions in a network reach; set it to all or private-ranges-only."
  }
}

variable "functions_subnet" {
  type        = string
  description = "The subnet that functions_egress uses, in the functions' region: projects/P/regions/R/subnetworks/S, in a host project too. Empty: that of a cluster in this region."
  default     = ""
  nullable    = false

  validation {
    condition     = var.functions_subnet == "" || can(regex("^projects/[^/]+/regions/${var.region}/subnetworks/[^/]+$", var.functions_subnet))
    error_message = "functions_subnet: must be projects/PROJECT/regions/${var.region}/subnetworks/NAME, because the functions are in ${var.region}."
  }
}

variable "build_worker_pool" {
  type        = string
  description = "Private pool of Cloud Build that builds the functions' images: projects/P/locations/R/workerPools/N, in the functions' region. Empty: Cloud Build's own pool, which has public addresses."
  default     = ""
  nullable    = false

  validation {
    condition     = var.build_worker_pool == "" || can(regex("^projects/[^/]+/locations/${var.region}/workerPools/[^/]+$", var.build_worker_pool))
    error_message = "build_worker_pool: must be projects/PROJECT/locations/${var.region}/workerPools/NAME, because the functions are in ${var.region}."
  }
}

variable "require_private_nodes" {
  type        = bool
  description = "Whether every served cluster must give new nodes no public addresses, as an organisation's policy may demand. The functions' pools take this from their cluster."
  default     = false
  nullable    = false
}

variable "services_kms_key" {
  type        = string
  description = "Key of Cloud KMS in the functions' region: projects/P/locations/R/keyRings/K/cryptoKeys/N. It encrypts the functions, their source and images, and the topics. Empty: Google's keys. infra/bootstrap.sh lets Google's services use it."
  default     = ""
  nullable    = false

  validation {
    condition     = var.services_kms_key == "" || can(regex("^projects/[^/]+/locations/${var.region}/keyRings/[^/]+/cryptoKeys/[^/]+$", var.services_kms_key))
    error_message = "services_kms_key: must be projects/PROJECT/locations/${var.region}/keyRings/RING/cryptoKeys/NAME, because the functions are in ${var.region}."
  }
}
