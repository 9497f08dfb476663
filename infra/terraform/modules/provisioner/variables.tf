variable "project_id" {
  type        = string
  description = "Id of the project with the topics, functions and accounts. The build script enables its APIs before."

  validation {
    condition     = can(regex("^[a-z][-a-z0-9]{4,28}[a-z0-9]$", var.project_id))
    error_message = "Must be a project id, not a name or number: 6 to 30 lower-case letters, digits and hyphens, beginning with a letter. Domain-scoped ids (example.com:id) are not supported."
  }
}

variable "region" {
  type        = string
  description = "Region of the functions, the scheduler and the source bucket, for example us-central1. A region near the clusters is best; others work too. us-east5 has no Cloud Scheduler."

  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.region))
    error_message = "Must be a region such as us-central1; for a zone such as us-central1-a, give its region."
  }
}

variable "name" {
  type        = string
  description = "Prefix of everything that is created, so that several deployments can live in one project."
  default     = "tpu-provisioner"
  nullable    = false

  # An account's id has at most 30 characters and must still end in "-provision" or "-scheduler".
  validation {
    condition     = can(regex("^[a-z]([-a-z0-9]{0,18}[a-z0-9])?$", var.name))
    error_message = "Must be 1 to 20 lower-case letters, digits and hyphens, beginning with a letter and not ending with a hyphen."
  }
}

variable "clusters" {
  type = map(object({
    name     = string
    location = string
    project  = optional(string)
    zone     = optional(string, "")
    endpoint = optional(string, "dns")
  }))
  description = <<-EOT
    The clusters to serve, by a key of your choice. name and location (region or zone) are GKE's; project is the cluster's, by
    default project_id; zone is where slices go whose pods select none. Every cluster needs Workload Identity and a DNS
    endpoint that can be reached from outside; or endpoint is "private", and functions_egress leads to its private address.
  EOT

  validation {
    condition     = length(var.clusters) > 0
    error_message = "Name at least one cluster: { main = { name = \"CLUSTER\", location = \"us-east5\", zone = \"us-east5-b\" } }."
  }

  validation {
    condition     = alltrue([for key in keys(var.clusters) : can(regex("^[a-z][-a-z0-9]{0,30}$", key))])
    error_message = "Every key of clusters must be 1 to 31 lower-case letters, digits and hyphens, beginning with a letter."
  }

  validation {
    condition     = alltrue([for each in var.clusters : can(regex("^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$", each.name))])
    error_message = "Every cluster's name must be GKE's short name: at most 40 lower-case letters, digits and hyphens, beginning with a letter."
  }

  validation {
    condition     = alltrue([for each in var.clusters : can(regex("^[a-z]+-[a-z]+[0-9]+(-[a-z0-9]+)?$", each.location))])
    error_message = "Every cluster's location must be its region (us-east5) or, for a zonal cluster, its zone (us-east5-b)."
  }

  validation {
    condition     = alltrue([for each in var.clusters : each.project == null || can(regex("^[a-z][-a-z0-9]{4,28}[a-z0-9]$", each.project))])
    error_message = "Every cluster's project must be a project id of 6 to 30 lower-case letters, digits and hyphens, or be left out."
  }

  validation {
    condition = alltrue([
      for each in var.clusters :
      each.zone == "" || can(regex("^${join("-", slice(split("-", each.location), 0, 2))}-[a-z0-9]+$", each.zone))
    ])
    error_message = "Every cluster's zone must be a zone of the cluster's region, such as us-east5-b for us-east5, or be left out."
  }

  validation {
    condition     = alltrue([for each in var.clusters : contains(["dns", "private"], each.endpoint)])
    error_message = "Every cluster's endpoint must be dns or private."
  }

  validation {
    condition     = length(distinct([for each in var.clusters : "${coalesce(each.project, var.project_id)} ${each.location} ${each.name}"])) == length(var.clusters)
    error_message = "Two keys of clusters name the same cluster: each cluster must have one key. The key environment is the environment's own cluster."
  }
}

variable "functions_archive" {
  type        = string
  description = "Path of the functions' source as a zip, made by: infra/build/stage_functions.py --zip FILE."

  validation {
    condition     = endswith(var.functions_archive, ".zip") && fileexists(var.functions_archive)
    error_message = "Must name an existing .zip file; make it with: python infra/build/stage_functions.py --zip FILE.zip"
  }
}

variable "node_service_accounts" {
  type        = list(string)
  description = "E-mail addresses of the accounts that nodes may run as. The first is the default. Pods request the others by the annotation node-service-account. The functions can use no other account."

  validation {
    condition     = length(var.node_service_accounts) > 0
    error_message = "Name at least one account for the nodes: GKE refuses a pool whose creator may not use its account."
  }

  validation {
    condition = alltrue([
      for each in var.node_service_accounts : can(regex("^[a-z][-a-z0-9]{4,28}[a-z0-9]@[a-z][-a-z0-9]{4,28}[a-z0-9]\\.iam\\.gserviceaccount\\.com$", each))
    ])
    error_message = "Every node account must be an e-mail address NAME@PROJECT.iam.gserviceaccount.com, NAME and PROJECT of 6 to 30 characters. The Compute Engine default account is not accepted: it usually has too many rights; create one for the nodes."
  }
}

variable "settings" {
  type        = map(string)
  description = "More settings of the functions, by their names in shared/settings.py. Values are texts, as in environment variables: { limit_chips = \"256\", grace_seconds = \"600\" }."
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for key in keys(var.settings) : contains(local.settings_free, key)])
    error_message = "Every key of settings must be one of: ${join(", ", local.settings_free)}."
  }
}

variable "replay_days" {
  type        = number
  description = "Days for which the topic keeps published events, for a replay by time."
  default     = 7
  nullable    = false

  validation {
    condition     = var.replay_days >= 1 && var.replay_days <= 31 && floor(var.replay_days) == var.replay_days
    error_message = "Must be 1 to 31 whole days, because Pub/Sub keeps messages for 31 days at most."
  }
}

variable "notification_channels" {
  type        = list(string)
  description = "Cloud Monitoring notification channels for the alerts: projects/P/notificationChannels/ID. Empty: incidents are shown in the console only."
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for each in var.notification_channels : can(regex("^projects/[^/]+/notificationChannels/[0-9]+$", each))])
    error_message = "Every channel must be projects/PROJECT/notificationChannels/NUMBER; list them with: gcloud beta monitoring channels list --format='value(name)'"
  }
}

variable "alert_email" {
  type        = string
  description = "E-mail address that gets the alerts, by a notification channel of its own. Empty: only notification_channels get them."
  default     = ""
  nullable    = false

  validation {
    condition     = var.alert_email == "" || can(regex("^[^@\\s,]+@[^@\\s,]+\\.[A-Za-z]+$", var.alert_email))
    error_message = "Must be one e-mail address such as team@example.com, or be left out."
  }
}

variable "idle_chips_max" {
  type        = number
  description = "Chips of a cluster that may be paid for and idle for an hour before an alert. Raise it where slices stay warm on purpose (idle_seconds)."
  default     = 0
  nullable    = false

  validation {
    condition     = var.idle_chips_max >= 0 && floor(var.idle_chips_max) == var.idle_chips_max
    error_message = "Must be a whole number of chips, 0 or more."
  }
}

variable "dead_letter_bucket" {
  type        = string
  description = "Name of an existing bucket that gets a copy of every dead letter as an Avro file. Give each deployment a bucket of its own: its destruction takes away the grants on it. Empty: dead letters are kept for 31 days only."
  default     = ""
  nullable    = false

  validation {
    condition     = var.dead_letter_bucket == "" || can(regex("^[a-z0-9][-a-z0-9_.]{1,61}[a-z0-9]$", var.dead_letter_bucket))
    error_message = "Must be a bucket's name without gs://: 3 to 63 lower-case letters, digits, hyphens, underscores and dots."
  }
}

variable "budget" {
  type = object({
    billing_account = string
    amount          = number
    currency        = optional(string, "USD")
  })
  description = "A monthly budget for everything in the clusters' projects, whose alerts go to the notification channels. null: none. The deployer needs roles/billing.costsManager on the billing account, and the project the API billingbudgets.googleapis.com."
  default     = null

  validation {
    condition     = var.budget == null || can(regex("^[0-9A-F]{6}-[0-9A-F]{6}-[0-9A-F]{6}$", var.budget.billing_account))
    error_message = "The budget's billing_account must be an id such as 012345-6789AB-CDEF01; list them with: gcloud billing accounts list"
  }

  validation {
    condition     = var.budget == null || try(var.budget.amount >= 1 && floor(var.budget.amount) == var.budget.amount, false)
    error_message = "The budget's amount must be a whole number of the currency, 1 or more."
  }
}

variable "demand_wait_minutes" {
  type        = number
  description = "Minutes for which a demand may wait for capacity before an alert. GKE alone tries for about 35 minutes in a stockout. Raise it where demands wait in line for capacity on purpose (flex-start)."
  default     = 30
  nullable    = false

  validation {
    condition     = var.demand_wait_minutes >= 5 && var.demand_wait_minutes <= 10080 && floor(var.demand_wait_minutes) == var.demand_wait_minutes
    error_message = "Must be 5 to 10080 whole minutes: less than 5 is the time of a usual creation, and 10080 is a week."
  }
}

variable "runbook_url" {
  type        = string
  description = "Address of docs/runbook.md. Alerts link to its headings."
  default     = "docs/runbook.md"
  nullable    = false

  validation {
    condition     = endswith(var.runbook_url, ".md") || startswith(var.runbook_url, "https://")
    error_message = "Must be an https:// address, or the path of the page in the repository (docs/runbook.md)."
  }
}
