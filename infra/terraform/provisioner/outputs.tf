# Everything that the module says.

output "topics" {
  description = "Full names of the topics: workload_events, dead_letters, and nodepool_events (null without operation_events)."
  value       = module.provisioner.topics
}

output "subscriptions" {
  description = "Full names of the subscriptions: provision and collect (push), dead_letters and nodepool_events (pull)."
  value       = module.provisioner.subscriptions
}

output "function_uris" {
  description = "Address of each function, reachable by Pub/Sub and Cloud Scheduler of the project only."
  value       = module.provisioner.function_uris
}

output "accounts" {
  description = "E-mail address of every account: provision, collect, sweep, push, scheduler, build."
  value       = module.provisioner.accounts
}

output "role_ids" {
  description = "By cluster project: id of the custom role, which carries the time of the first apply."
  value       = module.provisioner.role_ids
}

output "rbac_users" {
  description = "Whom to bind to their ClusterRoles (tpu-provisioner-provision, -collect, -sweep) in every cluster: the functions' accounts, as RBAC users."
  value       = module.provisioner.rbac_users
}

output "exporter_principals" {
  description = "By project: the Workload Identity principal that may publish, wherever in that project it runs."
  value       = module.provisioner.exporter_principals
}

output "clusters" {
  description = "By key: full name, Kubernetes endpoint, and the environment of the exporter there."
  value       = module.provisioner.clusters
}

output "scheduler_job" {
  description = "Full name of the job that wakes the sweep; pause it before anything is taken down."
  value       = module.provisioner.scheduler_job
}

output "replay_commands" {
  description = "What replays everything since a time: put it in place of TIME, RFC 3339. Replaying is always safe."
  value       = module.provisioner.replay_commands
}
