# The ends of node pool operations, from the audit log to both functions: a slice whose creation failed, or for which a
# place is free again, goes on at once instead of at the next tick.

locals {
  operation_filters = {
    for project in local.cluster_projects : project => [
      for each in local.clusters :
      "(resource.labels.cluster_name=\"${each.name}\" AND resource.labels.location=\"${each.location}\")"
      if each.project == project
    ]
  }
}

resource "google_pubsub_topic" "nodepool_events" {
  project      = var.project_id
  name         = "${var.name}-nodepool-events"
  kms_key_name = local.kms_key
}

# An operation writes two entries, one at each end; only the last says how it went
# (https://cloud.google.com/kubernetes-engine/docs/how-to/audit-logging-container).
resource "google_logging_project_sink" "operations" {
  for_each = local.cluster_projects

  project = each.key
  # Deployments of one name in different projects may serve clusters of one project. A create takes over a sink of the
  # same name without a word, and the end of one deployment would delete that of the other.
  name                   = "${var.name}-${each.key == var.project_id ? "" : "${var.project_id}-"}node-pool-operations"
  description            = "Finished node pool operations of the clusters that ${var.name} in project ${var.project_id} serves."
  destination            = "pubsub.googleapis.com/${google_pubsub_topic.nodepool_events.id}"
  unique_writer_identity = true
  filter                 = <<-EOT
    log_id("cloudaudit.googleapis.com/activity")
    resource.type="gke_nodepool"
    protoPayload.serviceName="container.googleapis.com"
    protoPayload.methodName=~"ClusterManager[.](Create|Delete)NodePool$"
    operation.producer="container.googleapis.com"
    operation.last=true
    (${join(" OR ", local.operation_filters[each.key])})
  EOT
}

resource "google_pubsub_topic_iam_member" "operations" {
  for_each = google_logging_project_sink.operations

  project = var.project_id
  topic   = google_pubsub_topic.nodepool_events.name
  role    = "roles/pubsub.publisher"
  member  = each.value.writer_identity
}

# No dead letters, and nothing is kept for long: the ticks find what an end that was lost would have told.
resource "google_pubsub_subscription" "ends" {
  for_each = local.deployed

  project                    = var.project_id
  name                       = "${var.name}-${each.key}-ends"
  topic                      = google_pubsub_topic.nodepool_events.id
  ack_deadline_seconds       = local.timeout_seconds
  message_retention_duration = "600s" # the least that Pub/Sub accepts

  push_config {
    push_endpoint = each.value.service_config[0].uri

    oidc_token {
      service_account_email = local.emails.push
      audience              = each.value.service_config[0].uri
    }
  }

  retry_policy {
    minimum_backoff = "10s"
    maximum_backoff = "600s"
  }

  expiration_policy {
    ttl = ""
  }

  depends_on = [
    google_cloud_run_v2_service_iam_binding.invokers,
  ]
}
