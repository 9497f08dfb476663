output "topics" {
  description = "Full names of the topics: workload_events, dead_letters, and nodepool_events (null without operation_events)."
  value = {
    workload_events = google_pubsub_topic.workload_events.id
    dead_letters    = google_pubsub_topic.dead_letters.id
    nodepool_events = one(google_pubsub_topic.nodepool_events[*].id)
  }
}

output "subscriptions" {
  description = "Full names of the subscriptions: provision and collect (push), dead_letters and nodepool_events (pull)."
  value = {
    provision       = google_pubsub_subscription.push["provision"].id
    collect         = google_pubsub_subscription.push["collect"].id
    dead_letters    = google_pubsub_subscription.dead_letters.id
    nodepool_events = one(google_pubsub_subscription.nodepool_events[*].id)
  }
}

output "function_uris" {
  description = "Address of each function, reachable by Pub/Sub and Cloud Scheduler of the project only."
  value       = { for key, each in google_cloudfunctions2_function.this : key => each.service_config[0].uri }
}

output "accounts" {
  description = "E-mail address of every account: provision, collect, sweep, push, scheduler, build."
  value       = { for key, each in google_service_account.this : key => each.email }
}

output "role_ids" {
  description = "By cluster project: id of the custom role, which carries the time of the first apply."
  value       = { for project, each in google_project_iam_custom_role.node_pools : project => each.role_id }
}

output "rbac_users" {
  description = "Whom to bind to their ClusterRoles (tpu-provisioner-provision, -collect, -sweep) in every cluster: the functions' accounts, as RBAC users."
  value       = [for key in keys(local.functions) : google_service_account.this[key].email]
}

output "exporter_principals" {
  description = "By project: the Workload Identity principal that may publish, wherever in that project it runs."
  value       = local.exporter_principals
}

output "clusters" {
  description = "By key: full name, Kubernetes endpoint, and the environment of the exporter there."
  value = {
    for key, each in local.clusters : key => {
      path     = local.cluster_paths[key]
      endpoint = local.cluster_endpoints[key]
      exporter_environment = {
        TPU_PROVISIONER_CLUSTER = local.cluster_paths[key]
        TPU_PROVISIONER_TOPIC   = google_pubsub_topic.workload_events.id
      }
    }
  }
}

output "scheduler_job" {
  description = "Full name of the job that wakes the sweep; pause it before anything is taken down."
  value       = google_cloud_scheduler_job.sweep.id
}

output "replay_commands" {
  description = "What replays everything since a time: put it in place of TIME, RFC 3339. Replaying is always safe."
  value = [
    for each in google_pubsub_subscription.push :
    "gcloud pubsub subscriptions seek ${each.name} --project=${var.project_id} --time=TIME"
  ]
}
