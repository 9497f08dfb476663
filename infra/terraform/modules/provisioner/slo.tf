# The objective of the functions, as Cloud Monitoring keeps it: their share of good answers, and what is left of the month's
# errors. alerts.tf raises an alert when these are used up too fast.

locals {
  goal = 0.99

  # How many times faster than the objective allows. At the first rate two hundredths of the month's errors happen in an
  # hour, at the second five in six hours (https://sre.google/workbook/alerting-on-slos). Both lookbacks must exceed it: the
  # short one ends the alert soon after the errors.
  burns = {
    fast = { rate = 14.4, lookback = ["1h", "5m"] }
    slow = { rate = 6, lookback = ["6h", "30m"] }
  }

  # 429 is Cloud Run's answer to a call for which the one instance has no room.
  good_classes = "metric.label.\"response_code_class\"!=\"5xx\" AND metric.label.\"response_code\"!=\"429\""
  calls_filter = join(" AND ", [
    "metric.type=\"run.googleapis.com/request_count\"",
    "resource.type=\"cloud_run_revision\"",
    "resource.label.\"service_name\"=monitoring.regex.full_match(\"${local.all_services}\")",
  ])
}

resource "google_monitoring_custom_service" "functions" {
  project      = var.project_id
  service_id   = "${var.name}-functions"
  display_name = "${var.name}: functions"
}

resource "google_monitoring_slo" "answers" {
  project             = var.project_id
  service             = google_monitoring_custom_service.functions.service_id
  slo_id              = "answers"
  display_name        = "${var.name}: calls of the functions end without 5xx or 429"
  goal                = local.goal
  rolling_period_days = 30

  request_based_sli {
    good_total_ratio {
      good_service_filter  = "${local.calls_filter} AND ${local.good_classes}"
      total_service_filter = local.calls_filter
    }
  }
}
