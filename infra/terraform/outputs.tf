# What the build's later steps and the command line read.

output "environment" {
  description = "What was created for training: cluster, kubectl's command, bucket, repository, TensorBoard, workloads' identities, static pools; null without an environment."
  value = one([for each in module.environment : {
    cluster             = each.cluster_id
    credentials_command = each.credentials_command
    bucket_url          = each.bucket_url
    image_repository    = each.image_repository
    tensorboard         = each.tensorboard
    workload            = each.workload
    tpu_pools           = each.tpu_pools
    workload_policies   = each.workload_policies
  }])
}

output "clusters" {
  description = "By key: full name, and whether the functions reach it by its private address."
  value       = module.provisioner.clusters
}

output "helm_values" {
  description = "By cluster: the values of the chart infra/helm, but for the image."
  value = {
    for key, values in module.provisioner.helm_values : key => merge(values, {
      for each in module.environment : "training" => {
        namespaces = each.workload.namespaces
        account    = each.workload.kubernetes_account
        settings   = { BUCKET_URL = each.bucket_url, IMAGE_REPOSITORY = each.image_repository, TENSORBOARD = each.tensorboard }
      } if key == "environment"
      }, {
      for each in module.environment : "queue" => each.queue if key == "environment" && local.queueing.kueue != "none"
    })
  }
}

output "queueing" {
  description = "Versions of JobSet and Kueue to install, or none."
  value       = local.queueing

  precondition {
    condition     = alltrue([for product, version in local.wanted : contains(concat(["", "none"], local.versions[product]), version)])
    error_message = "jobset_version, kueue_version: has no known checksum; valid: none, ${join(", ", concat(local.versions.jobset, local.versions.kueue))}."
  }
}

output "topics" {
  description = "Full names of the topics: workload_events, dead_letters and nodepool_events."
  value       = module.provisioner.topics
}

output "subscriptions" {
  description = "Full names of the subscriptions: provision and collect (messages), provision_ends and collect_ends (ends of operations), and dead_letters (pull)."
  value       = module.provisioner.subscriptions
}

output "function_uris" {
  description = "Address of each function, reachable by Pub/Sub and Cloud Scheduler of the project only."
  value       = module.provisioner.function_uris
}

output "scheduler_jobs" {
  description = "Full names of the scheduler jobs that wake the functions."
  value       = module.provisioner.scheduler_jobs
}

output "replay_commands" {
  description = "Commands that replay all messages since a time. Replace TIME with an RFC 3339 time. A replay is always safe."
  value       = module.provisioner.replay_commands
}
