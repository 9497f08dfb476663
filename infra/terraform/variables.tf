# What a person sets stands in one file, deployment.tfvars; infra/deployment.example.tfvars explains it. The modules check
# the values. The build sets the first four.

variable "project_id" {
  type        = string
  description = "Id of the project with the topics, the functions and, if there is one, the environment."
}

variable "services_region" {
  type        = string
  description = "Region of the functions, the scheduler and all images: that in which the build runs. us-east5 has no Cloud Scheduler."
}

variable "substitutions" {
  type        = map(string)
  description = "What a build was given beside the file, by the names of the public TPU training environment without the underscore."
  default     = {}
}

variable "deletion_protection" {
  type        = bool
  description = "Whether Terraform refuses to delete the environment's cluster. Only the destroy build lifts it."
  default     = true
}

variable "name" {
  type        = string
  description = "Prefix of everything that is created, so that several deployments can live in one project."
  default     = "tpu-provisioner"
}

variable "environment" {
  type        = any
  description = "A training environment to create: region, zone, cluster_name and all other variables of modules/environment. null: only the provisioner, for clusters that exist."
  default     = null

  validation {
    condition     = length(setsubtract(keys(merge({}, var.environment)), local.environment_names)) == 0
    error_message = "environment: has no ${join(", ", setsubtract(keys(merge({}, var.environment)), local.environment_names))}; valid: ${join(", ", local.environment_names)}."
  }
}

variable "clusters" {
  type        = map(any)
  description = "Clusters that exist and are to be served, by a key of your choice: { main = { name = \"training\", location = \"us-east5\" } }; project, zone and endpoint too."
  default     = {}

  validation {
    condition     = alltrue([for each in var.clusters : length(setsubtract(keys(each), ["name", "location", "project", "zone", "endpoint"])) == 0]) && !contains(keys(var.clusters), "environment")
    error_message = "clusters: each has name and location, and may have project, zone and endpoint; the key environment is that of the cluster that is created here."
  }

  validation {
    condition     = local.creates_environment || length(var.clusters) > 0
    error_message = "clusters: neither a cluster nor an environment is named. Set clusters = { main = { name = …, location = … } }, or environment = { cluster_name = …, zone = … } to create one."
  }
}

variable "node_service_accounts" {
  type        = list(string)
  description = "E-mail addresses of accounts that nodes may run as, besides NAME-nodes, which is the default. infra/bootstrap.sh lets the functions use them (--node-account)."
  default     = []
}

variable "limit_chips" {
  type        = number
  description = "The most chips that the functions keep in a cluster; 0: no limit. null: 256, or the chips of the queue if these are more."
  default     = null

  validation {
    condition     = var.limit_chips == null || try(var.limit_chips >= 0 && floor(var.limit_chips) == var.limit_chips, false)
    error_message = "limit_chips: must be a whole number of chips, 0 or more."
  }
}

variable "settings" {
  type        = map(string)
  description = "More settings of the functions, by their names in docs/reference/settings.md."
  default     = {}
}

variable "alert_email" {
  type        = string
  description = "E-mail address that gets the alerts. Empty: only the notification_channels of `provisioner` get them."
  default     = ""
}

variable "runbook_url" {
  type        = string
  description = "Address of docs/runbook.md as your people read it. Alerts link to its headings."
  default     = "docs/runbook.md"
}

variable "provisioner" {
  type        = any
  description = "Other variables of modules/provisioner, such as budget, demand_wait_minutes, functions_egress, services_kms_key."
  default     = {}

  validation {
    condition     = length(setsubtract(keys(var.provisioner), local.provisioner_names)) == 0
    error_message = "provisioner: has no ${join(", ", setsubtract(keys(var.provisioner), local.provisioner_names))}; valid: ${join(", ", local.provisioner_names)}."
  }
}

variable "jobset_version" {
  type        = string
  description = "Version of JobSet to install, or none. Empty: the first known one with an environment, else none."
  default     = ""
}

variable "kueue_version" {
  type        = string
  description = "Version of Kueue to install, or none. Empty: the first known one with an environment, else none."
  default     = ""
}
