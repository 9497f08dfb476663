# Everything that the two modules say.

output "cluster_id" {
  description = "Full name of the cluster: projects/P/locations/L/clusters/C."
  value       = module.environment.cluster_id
}

output "credentials_command" {
  description = "Command that lets kubectl reach the cluster, by its DNS endpoint or private address."
  value       = module.environment.credentials_command
}

output "node_service_account" {
  description = "E-mail of the account that nodes run as; the provisioner's pools may run as it too."
  value       = module.environment.node_service_account
}

output "workload" {
  description = "The training workloads' namespace, their other namespaces, Kubernetes account, IAM principal, and Google account (empty if none is created)."
  value       = module.environment.workload
}

output "bucket_url" {
  description = "URL of the bucket: gs://NAME."
  value       = module.environment.bucket_url
}

output "image_repository" {
  description = "Where the users' images are pushed to and pulled from: REGION-docker.pkg.dev/PROJECT/NAME; empty if no repository is created."
  value       = module.environment.image_repository
}

output "tensorboard" {
  description = "Full name of the TensorBoard; empty if none is created."
  value       = module.environment.tensorboard
}

output "tpu" {
  description = "One slice of tpu_type, for Kueue's flavor and quota: accelerator and topology labels, chips, nodes."
  value       = module.environment.tpu
}

output "tpu_pools" {
  description = "Static TPU pools, by name."
  value       = module.environment.tpu_pools
}

output "workload_policies" {
  description = "Workload policies of tpu7x slices, by topology."
  value       = module.environment.workload_policies
}

output "workload_policy_prefix" {
  description = "Value for the provisioner's setting workload_policy_prefix, so that its tpu7x pools find these policies."
  value       = module.environment.workload_policy_prefix
}

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
