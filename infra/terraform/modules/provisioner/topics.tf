# The messages: topics, subscriptions, and what Pub/Sub itself must be allowed to do with them.

locals {
  pubsub_agent = "serviceAccount:service-${data.google_project.home.number}@gcp-sa-pubsub.iam.gserviceaccount.com"
  day_seconds  = 86400
  filters = {
    provision = "hasPrefix(attributes.ce-type, \"tpuprovisioner.demand.\")"
    collect   = "NOT hasPrefix(attributes.ce-type, \"tpuprovisioner.demand.\")"
  }
}

# Kept by the topic, so that every subscription can be sought back to a time, those of later deployments too.
resource "google_pubsub_topic" "workload_events" {
  project                    = var.project_id
  name                       = "${var.name}-workload-events"
  kms_key_name               = local.kms_key
  message_retention_duration = "${var.replay_days * local.day_seconds}s"
}

resource "google_pubsub_topic" "dead_letters" {
  project      = var.project_id
  name         = "${var.name}-dead-letters"
  kms_key_name = local.kms_key
}

# The longest that Pub/Sub keeps anything: a dead letter waits for a person, who may be away.
resource "google_pubsub_subscription" "dead_letters" {
  project                    = var.project_id
  name                       = "${var.name}-dead-letters"
  topic                      = google_pubsub_topic.dead_letters.id
  message_retention_duration = "${31 * local.day_seconds}s"
  ack_deadline_seconds       = 60

  expiration_policy {
    ttl = ""
  }
}

resource "google_pubsub_subscription" "dead_letter_archive" {
  count = var.dead_letter_bucket == "" ? 0 : 1

  project = var.project_id
  name    = "${var.name}-dead-letter-archive"
  topic   = google_pubsub_topic.dead_letters.id

  cloud_storage_config {
    bucket          = var.dead_letter_bucket
    filename_prefix = "${var.name}/"
    filename_suffix = ".avro"
    max_duration    = "300s"

    avro_config {
      write_metadata = true
    }
  }

  expiration_policy {
    ttl = ""
  }
}

# Without this Pub/Sub keeps failing messages silently, so it comes before the subscriptions that need it.
resource "google_pubsub_topic_iam_member" "pubsub_agent" {
  project = var.project_id
  topic   = google_pubsub_topic.dead_letters.name
  role    = "roles/pubsub.publisher"
  member  = local.pubsub_agent
}

resource "google_pubsub_subscription" "push" {
  for_each = local.filters

  project = var.project_id
  name    = "${var.name}-${each.key}"
  topic   = google_pubsub_topic.workload_events.id
  filter  = each.value
  # For a push this is the request's time limit: the function's own.
  ack_deadline_seconds = local.timeout_seconds

  push_config {
    push_endpoint = local.deployed[each.key].service_config[0].uri

    oidc_token {
      service_account_email = local.emails.push # assumes: push-token
      audience              = local.deployed[each.key].service_config[0].uri
    }
  }

  # Only what a retry can mend is handed back. Twenty attempts at these pauses last two and a half hours; the ticks
  # answer the same demand meanwhile.
  retry_policy {
    minimum_backoff = "10s"
    maximum_backoff = "600s"
  }

  dead_letter_policy {
    dead_letter_topic     = google_pubsub_topic.dead_letters.id
    max_delivery_attempts = 20
  }

  expiration_policy {
    ttl = ""
  }

  # A dead letter without a subscription is lost, and a push before the grant is refused.
  depends_on = [
    google_cloud_run_v2_service_iam_binding.invokers,
    google_pubsub_subscription.dead_letters,
    google_pubsub_topic_iam_member.pubsub_agent,
  ]
}

# Forwarding also takes the message from its subscription. This grant is on the subscription itself, so it can only
# follow it; a message needs twenty attempts before it is missed.
resource "google_pubsub_subscription_iam_member" "pubsub_agent" {
  for_each = google_pubsub_subscription.push

  project      = var.project_id
  subscription = each.value.name
  role         = "roles/pubsub.subscriber"
  member       = local.pubsub_agent
}
