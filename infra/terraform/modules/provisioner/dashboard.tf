# One page for one deployment. The template only lays out; what is shown is defined here. It leaves out positions of 0, which
# Cloud Monitoring leaves out too: each plan would find a difference.

locals {
  decisions = "${local.metric}_decisions{monitored_resource=\"cloud_run_revision\"}"
  charts = [
    {
      title = "Decisions by reason"
      unit  = "per minute"
      lines = { "$${reason} ($${decision})" = "sum by (decision, reason) (rate(${local.decisions}[5m])) * 60" }
    },
    {
      title = "From pending to the create of the pool"
      unit  = "seconds"
      lines = {
        for name, share in { "half of them" = 0.5, "99 of 100" = 0.99 } : name =>
        "histogram_quantile(${share}, sum by (le) (increase(${local.metric}_waited_seconds_bucket{monitored_resource=\"cloud_run_revision\"}[30m])))"
      }
    },
    {
      title = "Demands that wait for capacity"
      unit  = "demands"
      lines = { "$${cluster}" = local.figure_queries.waiting_demands }
    },
    {
      title = "The longest wait for capacity"
      unit  = "seconds"
      lines = { "$${cluster}" = local.figure_queries.oldest_wait_seconds }
    },
    {
      title = "Chips that are paid for and idle"
      unit  = "chips"
      lines = { "$${cluster}" = local.figure_queries.idle_chips }
    },
    {
      title = "Autoscaled node pools"
      unit  = "pools"
      lines = { "$${cluster}" = local.figure_queries.autoscaled_pools }
    },
    {
      title = "Found by ticks: what messages missed"
      unit  = "per minute"
      lines = { "$${reason} ($${decision})" = "sum by (decision, reason) (rate(${local.metric}_decisions{monitored_resource=\"cloud_run_revision\",wake=\"tick\"}[5m])) * 60" }
    },
    {
      title = "Ticks that ended, in ten minutes"
      unit  = "ticks"
      lines = { "$${function} $${cluster}" = "sum by (function, cluster) (increase(${local.metric}_ticks{monitored_resource=\"cloud_run_revision\"}[10m]))" }
    },
    {
      title = "Instances"
      unit  = "instances"
      lines = { "$${service_name}" = local.instances_query }
    },
    {
      title = "Age of the oldest unanswered message"
      unit  = "seconds"
      lines = { "$${subscription_id}" = "max by (subscription_id) (pubsub_googleapis_com:subscription_oldest_unacked_message_age{monitored_resource=\"pubsub_subscription\",subscription_id=~\"${local.all_subscriptions}\"})" }
    },
    {
      title = "Dead letters"
      unit  = "messages"
      lines = { "dead letters" = "sum(pubsub_googleapis_com:subscription_num_undelivered_messages{monitored_resource=\"pubsub_subscription\",subscription_id=\"${var.name}-dead-letters\"})" }
    },
    {
      title = "Pushes by answer"
      unit  = "per minute"
      lines = { "$${subscription_id} $${response_class}" = "sum by (subscription_id, response_class) (rate(pubsub_googleapis_com:subscription_push_request_count{monitored_resource=\"pubsub_subscription\",subscription_id=~\"${local.all_subscriptions}\"}[5m])) * 60" }
    },
    {
      title = "Functions: 99 of 100 answered within"
      unit  = "milliseconds"
      lines = { "$${service_name}" = "histogram_quantile(0.99, sum by (le, service_name) (rate(run_googleapis_com:request_latencies_bucket{monitored_resource=\"cloud_run_revision\",service_name=~\"${local.all_services}\"}[5m])))" }
    },
    {
      title = "Exporter: from observation to stored message, 99 of 100 within"
      unit  = "seconds"
      lines = { "$${cluster}" = "histogram_quantile(0.99, sum by (le, cluster) (rate(tpu_provisioner_exporter_publish_seconds_bucket[5m])))" }
    },
    {
      title = "Exporter: leaders that wait, workloads that are over"
      unit  = "objects"
      lines = {
        "waiting $${cluster}" = "max by (cluster) (tpu_provisioner_exporter_leaders_unschedulable)"
        "over $${cluster}"    = "max by (cluster) (tpu_provisioner_exporter_workloads_over)"
      }
    },
  ]
}

resource "google_monitoring_dashboard" "this" {
  project = var.project_id
  dashboard_json = templatefile("${path.module}/dashboard.json.tftpl", {
    title  = "TPU provisioner: ${var.name}"
    charts = local.charts
  })
}
