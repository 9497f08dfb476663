output "topics" {
  description = "Full names of the topics: workload_events, dead_letters and nodepool_events."
  value = {
    workload_events = google_pubsub_topic.workload_events.id
    dead_letters    = google_pubsub_topic.dead_letters.id
    nodepool_events = google_pubsub_topic.nodepool_events.id
  }
}

output "subscriptions" {
  description = "Full names of the subscriptions: provision and collect (messages), provision_ends and collect_ends (ends of operations), and dead_letters (pull)."
  value = {
    provision      = google_pubsub_subscription.push["provision"].id
    collect        = google_pubsub_subscription.push["collect"].id
    provision_ends = google_pubsub_subscription.ends["provision"].id
    collect_ends   = google_pubsub_subscription.ends["collect"].id
    dead_letters   = google_pubsub_subscription.dead_letters.id
  }
}

output "function_uris" {
  description = "Address of each function, reachable by Pub/Sub and Cloud Scheduler of the project only."
  value       = { for key, each in local.deployed : key => each.service_config[0].uri }
}

output "clusters" {
  description = "By key: full name, and whether the functions reach it by its private address."
  value = {
    for key, each in local.clusters : key => { path = local.cluster_paths[key], private = each.endpoint == "private" }
  }
}

output "helm_values" {
  description = "By cluster: the values of the chart infra/helm, but for the image."
  value = {
    for key in keys(local.clusters) : key => {
      cluster  = local.cluster_paths[key]
      topic    = google_pubsub_topic.workload_events.id
      accounts = { for function in local.functions : function => local.emails[function] }
      # The exporter watches Kueue's Workloads where the functions answer its check.
      kueue       = local.answers_kueue
      environment = local.answers_kueue ? { TPU_PROVISIONER_KUEUE_ADMISSION_CHECK = "true" } : {}
    }
  }
}

output "scheduler_jobs" {
  description = "Full names of the scheduler jobs that wake the functions. Pause them before you destroy anything."
  value       = [for each in google_cloud_scheduler_job.ticks : each.id]
}

output "replay_commands" {
  description = "Commands that replay all messages since a time. Replace TIME with an RFC 3339 time. A replay is always safe."
  value = [
    for each in google_pubsub_subscription.push :
    "gcloud pubsub subscriptions seek ${each.name} --project=${var.project_id} --time=TIME"
  ]
}
