# Everything that the module says.

output "topics" {
  description = "Full names of the topics: workload_events, dead_letters, and nodepool_events (null without operation_events)."
  value       = module.provisioner.topics
}

output "subscriptions" {
  description = "Full names of the subscriptions: provision and collect (messages), provision_ends and collect_ends (ends of operations; null without operation_events), and dead_letters (pull)."
  value       = module.provisioner.subscriptions
}

output "function_uris" {
  description = "Address of each function, reachable by Pub/Sub and Cloud Scheduler of the project only."
  value       = module.provisioner.function_uris
}

output "accounts" {
  description = "E-mail address of every account: provision, collect, push, scheduler, build."
  value       = module.provisioner.accounts
}

output "role_ids" {
  description = "By cluster project: id of the custom role. The id contains the time of the first apply."
  value       = module.provisioner.role_ids
}

output "rbac_users" {
  description = "The functions' accounts as RBAC users. Bind them to the ClusterRole tpu-provisioner-functions in every cluster."
  value       = module.provisioner.rbac_users
}

output "exporter_principals" {
  description = "By project: the Workload Identity principal that may publish, wherever in that project it runs."
  value       = module.provisioner.exporter_principals
}

output "clusters" {
  description = "By key: full name, and whether the functions reach it by its private address."
  value       = module.provisioner.clusters
}

output "helm_values" {
  description = "By cluster: the values of the chart infra/helm, but for the image."
  value       = module.provisioner.helm_values
}

output "scheduler_jobs" {
  description = "Full names of the scheduler jobs that wake the functions. Pause them before you destroy anything."
  value       = module.provisioner.scheduler_jobs
}

output "replay_commands" {
  description = "Commands that replay all messages since a time. Replace TIME with an RFC 3339 time. A replay is always safe."
  value       = module.provisioner.replay_commands
}
