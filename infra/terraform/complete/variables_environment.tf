# The same as of ../modules/environment, which checks them; project and region are those of the provisioner too.

variable "project_id" {
  description = "Id of the project that everything is made in. Its APIs are enabled beforehand, by the build script."
  type        = string
}

variable "region" {
  description = "Region of everything: cluster, subnet and buckets, functions and scheduler."
  type        = string
}

variable "zone" {
  description = "Zone of the TPU nodes, and of the CPU nodes unless cpu_pool_zones says otherwise."
  type        = string
}

variable "cluster_name" {
  description = "Name of the cluster."
  type        = string
}

variable "cluster_description" {
  description = "What the cluster is for, in words."
  type        = string
  default     = "TPU training workloads"
}

variable "gke_release_channel" {
  description = "Release channel of the cluster. UNSPECIFIED means none: versions are then chosen by hand."
  type        = string
  default     = "STABLE"
}

variable "gke_version" {
  description = "Least version of the control plane, such as 1.34; null leaves it to the release channel."
  type        = string
  default     = null
}

variable "deletion_protection" {
  description = "Whether Terraform refuses to delete the cluster. Off, so that the environment can be removed by one command."
  type        = bool
  default     = false
}

variable "enable_private_nodes" {
  description = "Whether nodes have no public addresses. They then reach the internet by Cloud NAT, where images outside of Google's registries come from."
  type        = bool
  default     = false
}

variable "enable_ip_endpoints" {
  description = "Whether the control plane can be reached by address too, as older tools do. The functions come by the DNS endpoint."
  type        = bool
  default     = true
}

variable "cpu_pool_node_count" {
  description = "Nodes of the CPU pool in each of its zones. Controllers live here: TPU nodes carry a taint."
  type        = number
  default     = 3
}

variable "cpu_pool_zones" {
  description = "Zones of the CPU pool; empty means the TPU nodes' zone."
  type        = list(string)
  default     = []
}

variable "cpu_pool_machine_type" {
  description = "Machine type of the CPU pool. (The public environment had n1-standard-4, its predecessor by two generations.)"
  type        = string
  default     = "e2-standard-4"
}

variable "cpu_pool_disk_type" {
  description = "Boot disk type of the CPU pool. (The public environment had pd-standard, which is slow to pull images onto.)"
  type        = string
  default     = "pd-balanced"
}

variable "cpu_pool_disk_size" {
  description = "Boot disk size of the CPU pool in GB."
  type        = number
  default     = 200
}

variable "max_pods_per_node" {
  description = "Pods per node. GKE sets the next power of two above twice as many addresses aside for each node: 110 take 256."
  type        = number
  default     = 110
}
