# The same as of ../modules/provisioner, which checks them.

variable "project_id" {
  type        = string
  description = "Id of the project that holds the topics, functions and accounts. Its APIs are enabled beforehand, by the build script."
}

variable "region" {
  type        = string
  description = "Region of the functions, the scheduler and the source bucket, for example us-east5. Near the clusters is best, elsewhere works."
}

variable "name" {
  type        = string
  description = "Prefix of everything that is created, so that several deployments can live in one project."
  default     = "tpu-provisioner"
}

variable "clusters" {
  type = map(object({
    name     = string
    location = string
    project  = optional(string)
    zone     = optional(string, "")
  }))
  description = <<-EOT
    The clusters to serve, by a key of your choice. name and location (region or zone) are GKE's; project is the cluster's, by
    default project_id; zone is where slices go whose pods select none. Every cluster needs Workload Identity and a DNS
    endpoint that can be reached from outside.
  EOT
}

variable "functions_archive" {
  type        = string
  description = "Path of the functions' source as a zip, made by: infra/build/stage_functions.py --zip FILE."
}

variable "functions_runtime" {
  type        = string
  description = "Python runtime of the functions. python314 installs with another tool (uv) on another system image, which is not proved here."
  default     = "python313"
}

variable "node_service_accounts" {
  type        = list(string)
  description = "E-mail addresses of the accounts that nodes may run as: the first is the default, the others may be asked for by the annotation node-service-account. The functions may use these and no other account."
}

variable "settings" {
  type        = map(string)
  description = "Further settings of the functions, by their names in shared/core/settings.py, values as the environment has them: { limit_chips = \"256\", mode = \"report-only\" }."
  default     = {}
}

variable "exporter_namespace" {
  type        = string
  description = "Namespace of the exporter in every cluster."
  default     = "tpu-provisioner"
}

variable "exporter_account" {
  type        = string
  description = "Kubernetes account of the exporter in every cluster."
  default     = "tpu-provisioner-exporter"
}

variable "replay_days" {
  type        = number
  description = "Days for which published events are kept, so that they can be replayed by time."
  default     = 7
}

variable "operation_events" {
  type        = bool
  description = "Whether the end of every node pool operation is routed from the audit log to a topic. Needs the right to write log sinks in every cluster's project."
  # On: an operation's failure is written nowhere else for longer than GKE remembers it, and what is not routed when it
  # happens cannot be replayed later. It costs nothing that can be measured: two small messages per pool.
  default = true
}

variable "notification_channels" {
  type        = list(string)
  description = "Cloud Monitoring notification channels that alerts go to: projects/P/notificationChannels/ID. Empty: incidents are shown in the console only."
  default     = []
}

variable "runbook_url" {
  type        = string
  description = "Where people read docs/runbook.md; alerts link its headings."
  default     = "docs/runbook.md"
}
