# The same as of ../modules/environment, which checks them; project and region are those of the provisioner too.

variable "project_id" {
  description = "Id of the project in which everything is created. The build script enables its APIs before."
  type        = string
}

variable "region" {
  description = "Region of everything: cluster, subnet and buckets, functions and scheduler."
  type        = string
}

variable "zone" {
  description = "Zone of the TPU nodes, and of the CPU nodes unless cpu_pool_zones is set."
  type        = string
}

variable "cluster_name" {
  description = "Name of the cluster."
  type        = string
}

variable "cluster_description" {
  description = "Description of the cluster: its purpose."
  type        = string
  default     = "TPU training workloads"
}

variable "gke_release_channel" {
  description = "Release channel of the cluster. UNSPECIFIED: none; a person then chooses versions."
  type        = string
  default     = "STABLE"
}

variable "gke_version" {
  description = "Lowest version of the control plane, such as 1.34. null: the release channel decides."
  type        = string
  default     = null
}

variable "deletion_protection" {
  description = "Whether Terraform refuses to delete the cluster. Only the destroy build lifts it."
  type        = bool
  default     = true
}

variable "enable_private_nodes" {
  description = "Whether nodes have no public addresses. They use Cloud NAT to reach the internet, for images from other registries than Google's."
  type        = bool
  default     = true
}

variable "enable_ip_endpoints" {
  description = "Whether the control plane is also reachable by address, for older tools. The functions use the DNS endpoint. null: only if control_plane_access or authorized_networks need it."
  type        = bool
  default     = null
}

variable "maintenance_window" {
  description = "When GKE may upgrade the cluster: a first window, and its repetition by RFC 5545. GKE needs 48 hours in 32 days. null: at any time."
  type        = object({ start_time = string, end_time = string, recurrence = string })
  default     = { start_time = "2026-01-03T03:00:00Z", end_time = "2026-01-03T11:00:00Z", recurrence = "FREQ=WEEKLY;BYDAY=SA,SU" }
}

variable "cpu_pool_node_count" {
  description = "Nodes of the CPU pool in each of its zones. Controllers run here, because TPU nodes have a taint."
  type        = number
  default     = 3
}

variable "cpu_pool_zones" {
  description = "Zones of the CPU pool. Empty: the zone of the TPU nodes."
  type        = list(string)
  default     = []
}

variable "cpu_pool_machine_type" {
  description = "Machine type of the CPU pool. The default exists in the zones of every TPU generation; E2 does not. (The public environment had n1-standard-4.)"
  type        = string
  default     = "n2-standard-2"
}

variable "cpu_pool_disk_type" {
  description = "Boot disk type of the CPU pool. (The public environment had pd-standard, on which image pulls are slow.)"
  type        = string
  default     = "pd-balanced"
}

variable "cpu_pool_disk_size" {
  description = "Boot disk size of the CPU pool in GB. The default leaves room for a slice in a new project, which has 500 GB."
  type        = number
  default     = 30
}

variable "max_pods_per_node" {
  description = "Pods per node. GKE reserves twice as many addresses for each node, rounded up to a power of two: 256 for 110 pods."
  type        = number
  default     = 110
}
