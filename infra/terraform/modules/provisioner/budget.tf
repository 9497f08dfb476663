# Tells of costs, and stops nothing: a limit on chips (settings) does. It counts everything in the clusters' projects.

resource "google_billing_budget" "this" {
  count = var.budget == null ? 0 : 1

  billing_account = var.budget.billing_account
  display_name    = "${var.name}: ${var.project_id}" # one billing account may have many deployments of one name

  budget_filter {
    projects = [for each in data.google_project.of_clusters : "projects/${each.number}"]
  }

  amount {
    specified_amount {
      currency_code = var.budget.currency
      units         = tostring(var.budget.amount)
    }
  }

  dynamic "threshold_rules" {
    for_each = [0.5, 0.9, 1]

    content {
      threshold_percent = threshold_rules.value
    }
  }

  threshold_rules {
    threshold_percent = 1
    spend_basis       = "FORECASTED_SPEND"
  }

  all_updates_rule {
    monitoring_notification_channels = local.channels
  }
}
