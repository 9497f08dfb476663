# The same as of ../modules/provisioner, which checks them; only what comes from the environment differs.

variable "name" {
  type        = string
  description = "Prefix of everything that is created, so that several deployments can live in one project."
  default     = "tpu-provisioner"
}

variable "functions_archive" {
  type        = string
  description = "Path of the functions' source as a zip, made by: infra/build/stage_functions.py --zip FILE."
}

variable "functions_runtime" {
  type        = string
  description = "Python runtime of the functions. python314 uses another installer (uv) and another system image, which are not tested here."
  default     = "python313"
}

variable "settings" {
  type        = map(string)
  description = "More settings of the functions, by their names in shared/settings.py. Values are texts, as in environment variables: { limit_chips = \"256\", grace_seconds = \"600\" }."
  default     = {}

  validation {
    condition     = !contains(keys(var.settings), "workload_policy_prefix")
    error_message = "settings: set the variable workload_policy_prefix instead, which both modules use."
  }
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
  description = "Days for which the topic keeps published events, for a replay by time."
  default     = 7
}

variable "operation_events" {
  type        = bool
  description = "Whether a log sink sends the end of every node pool operation from the audit log to the functions. Without it the ticks find the same, up to a minute later. This needs the right to write log sinks in every cluster's project."
  # On: it costs nothing that can be measured, two small messages and four short calls for each pool.
  default = true
}

variable "notification_channels" {
  type        = list(string)
  description = "Cloud Monitoring notification channels for the alerts: projects/P/notificationChannels/ID. Empty: incidents are shown in the console only."
  default     = []
}

variable "alert_email" {
  type        = string
  description = "E-mail address that gets the alerts, by a notification channel of its own. Empty: only notification_channels get them."
  default     = ""
}

variable "idle_chips_max" {
  type        = number
  description = "Chips of a cluster that may be paid for and idle for an hour before an alert. Raise it where slices stay warm on purpose (idle_seconds)."
  default     = 0
}

variable "deployed_at" {
  type        = string
  description = "A time for the IDs of the custom roles, as YYYYMMDDhhmmss. It counts in the first apply only. The build sets it, so that it can import the roles of a killed build. Empty: the time of the plan."
  default     = ""
}

variable "limit_to_clusters" {
  type        = bool
  description = "Whether an IAM condition limits the functions to the served clusters. false: their custom role holds for all clusters of the clusters' projects. IAM allows 20 conditions for one account and role, so with more than 20 clusters in one project set false."
  default     = true
}

variable "dead_letter_bucket" {
  type        = string
  description = "Name of an existing bucket that gets a copy of every dead letter as an Avro file. Give each deployment a bucket of its own: its destruction takes away the grants on it. Empty: dead letters are kept for 31 days only."
  default     = ""
}

variable "budget" {
  type = object({
    billing_account = string
    amount          = number
    currency        = optional(string, "USD")
  })
  description = "A monthly budget for everything in the clusters' projects, whose alerts go to the notification channels. null: none. The deployer needs roles/billing.costsManager on the billing account, and the project the API billingbudgets.googleapis.com."
  default     = null
}

variable "demand_wait_minutes" {
  type        = number
  description = "Minutes for which a demand may wait for capacity before an alert. GKE alone tries for about 35 minutes in a stockout. Raise it where demands wait in line for capacity on purpose (flex-start)."
  default     = 30
}

variable "runbook_url" {
  type        = string
  description = "Address of docs/runbook.md. Alerts link to its headings."
  default     = "docs/runbook.md"
}

variable "clusters" {
  type = map(object({
    name     = string
    location = string
    project  = optional(string)
    zone     = optional(string, "")
    endpoint = optional(string, "dns")
  }))
  description = "More clusters to serve, by a key of your choice. The cluster that is created here has the key environment."
  default     = {}

  validation {
    condition     = !contains(keys(var.clusters), "environment")
    error_message = "clusters: choose another key than environment, which is the cluster that is created here."
  }
}

variable "node_service_accounts" {
  type        = list(string)
  description = "E-mail addresses of more accounts that nodes may run as. Pods request them by the annotation node-service-account. The environment's own account is always the first."
  default     = []
}

variable "services_region" {
  description = "Region of the functions, the scheduler and the source bucket, where the environment's region lacks these services. Empty: the environment's region."
  type        = string
  default     = ""
}
