# The same as of ../modules/provisioner, which checks them.

variable "functions_egress" {
  type        = string
  description = "What the functions send through a network of yours: none, all, or private-ranges-only (internal addresses: enough for a private endpoint, and Google's APIs stay outside)."
  default     = "none"
}

variable "functions_subnet" {
  type        = string
  description = "The subnet that functions_egress uses, in the functions' region: projects/P/regions/R/subnetworks/S, in a host project too. Empty: that of a cluster in this region."
  default     = ""
}

variable "build_worker_pool" {
  type        = string
  description = "Private pool of Cloud Build that builds the functions' images: projects/P/locations/R/workerPools/N, in the functions' region. Empty: Cloud Build's own pool, which has public addresses."
  default     = ""
}

variable "require_private_nodes" {
  type        = bool
  description = "Whether every served cluster must give new nodes no public addresses, as an organisation's policy may demand. The functions' pools take this from their cluster."
  default     = false
}

variable "services_kms_key" {
  type        = string
  description = "Key of Cloud KMS in the functions' region: projects/P/locations/R/keyRings/K/cryptoKeys/N. It encrypts the functions, their source and images, and the topics. Empty: Google's keys. infra/build/private-grants.sh lets Google's services use it."
  default     = ""
}
