# What wakes a person. Every alert names a heading of docs/runbook.md.
#
# The conditions on the objective (slo.tf) read its burn rate. All others are PromQL, and none of these is checked against
# existing metrics: a metric made by this very apply would be unknown for up to ten minutes, and the apply would fail.

locals {
  all_services = join("|", [for function in local.functions : "${var.name}-${function}"])
  # Those of the messages have the functions' names, and those of the ends of operations one with an ending.
  all_subscriptions = "(${local.all_services})(-ends)?"
  # The calls of each function in so many minutes, of those of a class (its label, or nothing).
  calls     = "sum by (service_name) (increase(run_googleapis_com:request_count{monitored_resource=\"cloud_run_revision\",service_name=~\"${local.all_services}\"%s}[%dm]))"
  bad_calls = ",response_code=~\"5..|429\""
  # Active and idle ones, of all revisions.
  instances_query = "sum by (service_name) (run_googleapis_com:container_instance_count{monitored_resource=\"cloud_run_revision\",service_name=~\"${local.all_services}\"})"
  exporter_labels = {
    for key, each in local.clusters :
    key => "project_id=\"${each.project}\",location=\"${each.location}\",cluster=\"${each.name}\",namespace=\"${local.exporter_namespace}\""
  }

  channels = concat(var.notification_channels, google_monitoring_notification_channel.email[*].name)

  # What a person can mend, or must at least know of. A lack of capacity has an alert of its own (demands_wait).
  failed_creations = [
    "addresses_exhausted", "permission_denied", "policy_violated", "pool_failed", "request_invalid",
    "reservation_unfit", "zone_unfit",
  ]

  # From here on, new pools come with their nodes (shared/plan/attempts.py).
  autoscaled_pools_max = 150

  alerts = merge(
    {
      for speed, burn in local.burns : "errors_burn_${speed}" => {
        title    = "errors use up the month's budget, ${speed}"
        severity = "CRITICAL"
        lookback = burn.lookback
        rate     = burn.rate
        text     = "So many calls of the functions end in errors that the objective of ${local.goal * 100} of 100 in thirty days will be missed."
        heading  = "alert-errors-use-up-the-months-budget"
      }
    },
    {
      oldest_unacked = {
        title    = "messages wait"
        severity = "ERROR"
        duration = "300s"
        query    = "max(pubsub_googleapis_com:subscription_oldest_unacked_message_age{monitored_resource=\"pubsub_subscription\",subscription_id=~\"${local.all_services}\"}) > 600"
        text     = "A message has waited for its function for more than ten minutes, because the function does not answer or refuses it. The ticks answer the same demands."
        heading  = "alert-messages-wait"
      }
      dead_letters = {
        title    = "dead letters"
        severity = "WARNING"
        duration = "0s"
        query    = "sum(pubsub_googleapis_com:subscription_num_undelivered_messages{monitored_resource=\"pubsub_subscription\",subscription_id=\"${var.name}-dead-letters\"}) > 0"
        text     = "Messages that could not be answered are in ${var.name}-dead-letters."
        heading  = "alert-dead-letters"
      }
      push_errors = {
        title    = "pushes fail"
        severity = "ERROR"
        duration = "600s"
        query    = "sum(increase(pubsub_googleapis_com:subscription_push_request_count{monitored_resource=\"pubsub_subscription\",subscription_id=~\"${local.all_subscriptions}\",response_class!=\"ack\"}[10m])) > 10"
        text     = "Functions refuse Pub/Sub's calls, fail, or do not answer in time."
        heading  = "alert-pushes-fail"
      }
      function_errors = {
        title    = "a function fails"
        severity = "ERROR"
        duration = "300s"
        query    = "${format(local.calls, local.bad_calls, 10)} > 5 or (${format(local.calls, local.bad_calls, 30)} > 2 and ${format(local.calls, local.bad_calls, 30)} > 0.9 * ${format(local.calls, "", 30)})"
        text     = "A function answers 5xx or 429, often or nearly always. 503: GKE or the cluster is not ready, or the function has more to do than it can. 429: its one instance has no room. 500: a person must act."
        heading  = "alert-a-function-fails"
      }
      tick_absent = {
        title    = "a tick does not end"
        severity = "CRITICAL"
        duration = "300s"
        query    = "(count(sum by (function, cluster) (increase(${local.metric}_ticks{monitored_resource=\"cloud_run_revision\"}[10m])) > 0) or vector(0)) < ${length(local.ticks)}"
        text     = "For a function and a cluster no tick has ended for ten minutes. Demands of lost messages are not found, or pools can stay after their workloads."
        heading  = "alert-a-tick-does-not-end"
      }
      second_instance = {
        title    = "a function has a second instance"
        severity = "WARNING"
        duration = "900s"
        query    = "${local.instances_query} > 1"
        text     = "Cloud Run has kept a second instance of a function for fifteen minutes. Two of them count limits and free operations each for itself."
        heading  = "alert-a-function-has-a-second-instance"
      }
      demands_wait = {
        title    = "demands wait without capacity"
        severity = "WARNING"
        duration = "120s"
        query    = "${local.figure_queries.oldest_wait_seconds} > ${var.demand_wait_minutes * 60}"
        text     = "A demand has waited for more than ${var.demand_wait_minutes} minutes, and GKE has not provided its node pool."
        heading  = "alert-demands-wait-without-capacity"
      }
      creations_fail = {
        title    = "creations of node pools fail"
        severity = "ERROR"
        duration = "600s"
        query    = "sum by (reason) (increase(${local.metric}_decisions{monitored_resource=\"cloud_run_revision\",reason=~\"${join("|", local.failed_creations)}\"}[10m])) > 2"
        text     = "The creations of node pools fail for a cause that is not a lack of capacity, so demands wait. Or GKE does not delete pools, so they cost money."
        heading  = "alert-creations-of-node-pools-fail"
      }
      quota_used_up = {
        title    = "the quota is used up"
        severity = "ERROR"
        duration = "600s"
        query    = "sum(increase(${local.metric}_decisions{monitored_resource=\"cloud_run_revision\",reason=\"quota_exceeded\"}[10m])) > 2"
        text     = "Demands wait, because Compute Engine's quota of the project is used up."
        heading  = "quota_exceeded"
      }
      limit_reached = {
        title    = "demands wait behind a limit"
        severity = "WARNING"
        duration = "1800s"
        query    = "sum(increase(${local.metric}_decisions{monitored_resource=\"cloud_run_revision\",reason=\"limit_reached\"}[10m])) > 2"
        text     = "Demands have waited for half an hour, because a limit on chips or slices of this deployment is reached."
        heading  = "limit_reached"
      }
      autoscaled_pools = {
        title    = "many autoscaled node pools"
        severity = "WARNING"
        duration = "600s"
        query    = "${local.figure_queries.autoscaled_pools} > ${local.autoscaled_pools_max - 0.5}"
        text     = "A cluster has ${local.autoscaled_pools_max} autoscaled node pools or more. So new pools are created with their nodes, and a stockout is known after 35 minutes instead of two."
        heading  = "alert-many-autoscaled-node-pools"
      }
      idle_chips = {
        title    = "chips are paid for and idle"
        severity = "WARNING"
        duration = "3600s"
        query    = "${local.figure_queries.idle_chips} > ${var.idle_chips_max}"
        text     = "For an hour, more than ${var.idle_chips_max} chips of a cluster have been paid for and have done no work."
        heading  = "alert-chips-are-paid-for-and-idle"
      }
      limit_passed = {
        title    = "a limit is passed"
        severity = "ERROR"
        duration = "0s"
        query    = "sum(increase(${local.metric}_decisions{monitored_resource=\"cloud_run_revision\",reason=\"limit_passed\"}[10m])) > 0"
        text     = "The node pools of a cluster or a namespace have more chips or slices than a limit of this deployment. Nothing is deleted for it."
        heading  = "limit_passed"
      }
      deletions_over_cap = {
        title    = "more pools are to be deleted than the cap"
        severity = "CRITICAL"
        duration = "0s"
        query    = "sum(increase(${local.metric}_decisions{monitored_resource=\"cloud_run_revision\",reason=\"deletions_over_cap\"}[10m])) > 0"
        text     = "More node pools of absent owners, or that failed, are due than deletions_per_minute_max lets a minute delete. The rest waits."
        heading  = "deletions_over_cap"
      }
      looks_too_old = {
        title    = "pools cannot be looked at in time"
        severity = "ERROR"
        duration = "0s"
        query    = "sum(increase(${local.metric}_decisions{monitored_resource=\"cloud_run_revision\",decision=\"refuse\",reason=\"view_stale\"}[10m])) > 0"
        text     = "Three looks at a node pool in a row took too long to act on, so it is neither made nor deleted. The cluster or GKE answers slowly."
        heading  = "view_stale"
      }
      cluster_unproven = {
        title    = "an endpoint may be another cluster's"
        severity = "CRITICAL"
        duration = "0s"
        query    = "sum(increase(${local.metric}_decisions{monitored_resource=\"cloud_run_revision\",reason=\"cluster_unproven\"}[10m])) > 0"
        text     = "Nothing proves that an endpoint in the settings is the Kubernetes API of its cluster. Pools that are due are kept, or no pool is created."
        heading  = "cluster_unproven"
      }
    },
    {
      for key, labels in local.exporter_labels : "exporter_absent_${key}" => {
        title    = "the exporter of ${key} is silent"
        severity = "ERROR"
        duration = "600s"
        query    = "absent(tpu_provisioner_exporter_is_leader{${labels}} == 1)"
        text     = "No exporter of cluster ${local.cluster_paths[key]} is the leader. The ticks still find pods that wait, so their pools are created up to about a minute later."
        heading  = "alert-the-exporter-is-silent"
      }
    },
    {
      for key, labels in local.exporter_labels : "exporter_blocked_${key}" => {
        title    = "events of ${key} cannot be published"
        severity = "ERROR"
        duration = "120s"
        query    = "max(tpu_provisioner_exporter_oldest_unpublished_age_seconds{${labels}}) > 120 or sum(increase(tpu_provisioner_exporter_publish_failures_total{${labels},reason=\"request_invalid\"}[10m])) > 0 or sum(increase(tpu_provisioner_exporter_watch_restarts_total{${labels},reason=\"denied\"}[10m])) > 20"
        text     = "The exporter of cluster ${local.cluster_paths[key]} cannot publish for two minutes, or Pub/Sub refuses its events for ever, or it may not watch the cluster."
        heading  = "alert-events-cannot-be-published"
      }
    },
  )
}

# The exporters' metrics are kept in their clusters' projects, and a query sees its own project only. Unseen they would all
# count as silent. A project that another deployment has linked already is refused by Google. The build then imports it; by
# hand, import it as PROJECT_ID/CLUSTER_PROJECT.
resource "google_monitoring_monitored_project" "of_clusters" {
  for_each = setsubtract(local.cluster_projects, [var.project_id])

  metrics_scope = var.project_id
  name          = each.key
}

resource "google_monitoring_notification_channel" "email" {
  count = var.alert_email == "" ? 0 : 1

  project      = var.project_id
  display_name = "${var.name}: ${var.alert_email}"
  type         = "email"
  labels       = { email_address = var.alert_email }
}

resource "google_monitoring_alert_policy" "this" {
  for_each = local.alerts

  project               = var.project_id
  display_name          = "${var.name}: ${each.value.title}"
  combiner              = "AND" # an alert on the objective has two conditions, and each other alert has one
  severity              = each.value.severity
  notification_channels = local.channels

  dynamic "conditions" {
    for_each = try([each.value.query], [])

    content {
      display_name = each.value.title

      condition_prometheus_query_language {
        query                     = conditions.value
        duration                  = each.value.duration
        evaluation_interval       = "60s"
        disable_metric_validation = true
      }
    }
  }

  dynamic "conditions" {
    for_each = try(each.value.lookback, [])

    content {
      display_name = "${each.value.title}: ${conditions.value}"

      condition_threshold {
        filter          = "select_slo_burn_rate(\"${google_monitoring_slo.answers.name}\", \"${conditions.value}\")"
        comparison      = "COMPARISON_GT"
        threshold_value = each.value.rate
        duration        = "0s"
      }
    }
  }

  documentation {
    mime_type = "text/markdown"
    subject   = "${var.name}: ${each.value.title}"
    content   = "${each.value.text}\n\nWhat to do: ${var.runbook_url}#${each.value.heading}"

    # A link must be absolute.
    dynamic "links" {
      for_each = startswith(var.runbook_url, "https://") ? [each.value.heading] : []

      content {
        display_name = "What to do"
        url          = "${var.runbook_url}#${links.value}"
      }
    }
  }

  alert_strategy {
    auto_close = "86400s"
  }
}
