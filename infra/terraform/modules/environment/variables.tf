# Names and defaults of the public environment "TPU training workloads on GKE" are kept where they still make sense; what
# differs says why. Variables of the network, the accounts and the TPU pools are in variables_*.tf.

variable "project_id" {
  description = "Id of the project in which everything is created. The build script enables its APIs before."
  type        = string

  validation {
    condition     = can(regex("^[a-z][-a-z0-9]{4,28}[a-z0-9]$", var.project_id))
    error_message = "project_id: must be a project id: 6 to 30 lower-case letters, digits and hyphens, beginning with a letter."
  }
}

variable "region" {
  description = "Region of the cluster, the subnet and the bucket."
  type        = string

  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.region))
    error_message = "region: must be a region such as us-east5; for a zone such as us-east5-b, give its region."
  }
}

variable "zone" {
  description = "Zone of the TPU nodes, and of the CPU nodes unless cpu_pool_zones is set."
  type        = string

  validation {
    condition     = can(regex("^${var.region}-[a-z0-9]+$", var.zone))
    error_message = "zone: must be a zone of region ${var.region}, such as ${var.region}-b."
  }
}

variable "cluster_name" {
  description = "Name of the cluster."
  type        = string

  validation {
    condition     = can(regex("^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$", var.cluster_name))
    error_message = "cluster_name: must be at most 40 lower-case letters, digits and hyphens, beginning with a letter."
  }
}

variable "cluster_description" {
  description = "Description of the cluster: its purpose."
  type        = string
  default     = "TPU training workloads"
  nullable    = false
}

variable "gke_release_channel" {
  description = "Release channel of the cluster. UNSPECIFIED: none; a person then chooses versions."
  type        = string
  default     = "STABLE"
  nullable    = false

  validation {
    condition     = contains(["RAPID", "REGULAR", "STABLE", "EXTENDED", "UNSPECIFIED"], var.gke_release_channel)
    error_message = "gke_release_channel: choose RAPID, REGULAR, STABLE, EXTENDED or UNSPECIFIED."
  }
}

variable "gke_version" {
  description = "Lowest version of the control plane, such as 1.34. null: the release channel decides."
  type        = string
  default     = null

  validation {
    condition     = var.gke_version == null || can(regex("^(latest|[0-9]+\\.[0-9]+(\\.[0-9]+(-gke\\.[0-9]+)?)?)$", var.gke_version))
    error_message = "gke_version: give a version such as 1.34, 1.34.1 or 1.34.1-gke.3084001, latest, or null."
  }
}

variable "deletion_protection" {
  description = "Whether Terraform refuses to delete the cluster. Only the destroy build lifts it."
  type        = bool
  default     = true
  nullable    = false
}

variable "enable_private_nodes" {
  description = "Whether nodes have no public addresses. They use Cloud NAT to reach the internet, for images from other registries than Google's."
  type        = bool
  default     = true
  nullable    = false
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
  nullable    = false

  validation {
    condition     = var.cpu_pool_node_count >= 1 && var.cpu_pool_node_count <= 1000 && floor(var.cpu_pool_node_count) == var.cpu_pool_node_count
    error_message = "cpu_pool_node_count: give a whole number, at least 1 (JobSet and Kueue need a node) and at most 1000."
  }
}

variable "cpu_pool_zones" {
  description = "Zones of the CPU pool. Empty: the zone of the TPU nodes."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for zone in var.cpu_pool_zones : can(regex("^${var.region}-[a-z0-9]+$", zone))])
    error_message = "cpu_pool_zones: every zone must be one of region ${var.region}, such as ${var.region}-b."
  }
}

variable "cpu_pool_machine_type" {
  description = "Machine type of the CPU pool. The default exists in the zones of every TPU generation; E2 does not. (The public environment had n1-standard-4.)"
  type        = string
  default     = "n2-standard-2"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9]*-[a-z0-9-]+$", var.cpu_pool_machine_type))
    error_message = "cpu_pool_machine_type: give a machine type such as n2-standard-4."
  }
}

variable "cpu_pool_disk_type" {
  description = "Boot disk type of the CPU pool. (The public environment had pd-standard, on which image pulls are slow.)"
  type        = string
  default     = "pd-balanced"
  nullable    = false

  validation {
    condition     = contains(["pd-standard", "pd-balanced", "pd-ssd", "hyperdisk-balanced"], var.cpu_pool_disk_type)
    error_message = "cpu_pool_disk_type: choose pd-standard, pd-balanced, pd-ssd or hyperdisk-balanced."
  }
}

variable "cpu_pool_disk_size" {
  description = "Boot disk size of the CPU pool in GB. The default leaves room for a slice in a new project, which has 500 GB."
  type        = number
  default     = 30
  nullable    = false

  validation {
    condition     = var.cpu_pool_disk_size >= 10 && var.cpu_pool_disk_size <= 65536
    error_message = "cpu_pool_disk_size: give at least 10 and at most 65536 GB."
  }
}

variable "max_pods_per_node" {
  description = "Pods per node. GKE reserves twice as many addresses for each node, rounded up to a power of two: 256 for 110 pods."
  type        = number
  default     = 110
  nullable    = false

  validation {
    condition     = var.max_pods_per_node >= 8 && var.max_pods_per_node <= 256 && floor(var.max_pods_per_node) == var.max_pods_per_node
    error_message = "max_pods_per_node: give a whole number, at least 8 and at most 256."
  }
}
