# The same as of ../modules/environment and ../modules/provisioner, which check them.

variable "control_plane_access" {
  description = "How the functions and kubectl reach the control plane: dns (its DNS endpoint, where IAM decides), or private (its private address only, from networks that lead there; the DNS endpoint takes no traffic)."
  type        = string
  default     = "dns"
}

variable "authorized_networks" {
  description = "Ranges that may reach the control plane by its addresses, as CIDR. The DNS endpoint knows no ranges. Empty: every range, or with control_plane_access = private only the cluster's own subnet."
  type        = list(string)
  default     = []
}

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

variable "network_project" {
  description = "Host project of a Shared VPC that has the network and the subnet. Empty: project_id."
  type        = string
  default     = ""
}

variable "kms_key" {
  description = "Key of Cloud KMS in this region: projects/P/locations/R/keyRings/K/cryptoKeys/N. It encrypts the cluster's Secrets, node disks, the artifacts bucket, the images' repository and the TensorBoard. Empty: Google's keys. infra/build/private-grants.sh lets Google's services use it."
  type        = string
  default     = ""
}

variable "services_kms_key" {
  type        = string
  description = "Key of Cloud KMS in the functions' region: projects/P/locations/R/keyRings/K/cryptoKeys/N. It encrypts the functions, their source and images, and the topics. Empty: Google's keys. infra/build/private-grants.sh lets Google's services use it."
  default     = ""
}
