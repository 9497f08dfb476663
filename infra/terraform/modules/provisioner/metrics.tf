# What is counted from the functions' log records (shared/deliver.py writes them), as the alerts and the dashboard read it.

locals {
  functions_filter = <<-EOT
    resource.type="cloud_run_revision"
    resource.labels.service_name=(${join(" OR ", [for function in local.functions : "\"${var.name}-${function}\""])})
  EOT

  # Each of them is a figure in the record that a tick writes at its end, 0 too.
  cluster_figures = {
    waiting_demands     = { unit = "1", description = "Demands that wait for capacity from GKE." }
    oldest_wait_seconds = { unit = "s", description = "Seconds for which the oldest of these demands has waited; 0 without one." }
    idle_chips          = { unit = "1", description = "Chips of pools that run and, as far as the tick knows, do no work." }
    autoscaled_pools    = { unit = "1", description = "Node pools that GKE's autoscaler may fill, ours and others." }
  }

  # PromQL writes the metric type with its first slash as a colon and all other marks as underscores
  # (https://cloud.google.com/monitoring/promql/promql-mapping).
  metric = "logging_googleapis_com:user_${replace(var.name, "-", "_")}" # assumes: metric-names

  # The mean of the last ticks, one a minute, of each cluster.
  figure_queries = {
    for key in keys(local.cluster_figures) : key =>
    "sum by (cluster) (increase(${local.metric}_${key}_sum{monitored_resource=\"cloud_run_revision\"}[5m])) / sum by (cluster) (increase(${local.metric}_${key}_count{monitored_resource=\"cloud_run_revision\"}[5m]))"
  }
}

resource "google_logging_metric" "decisions" {
  project     = var.project_id
  name        = "${var.name}/decisions"
  description = "Decisions of the functions, and errors (decision none), by reason. docs/runbook.md has a heading for each reason."
  filter      = "${local.functions_filter}jsonPayload.decision:*"

  label_extractors = {
    function = "EXTRACT(jsonPayload.function)"
    wake     = "EXTRACT(jsonPayload.wake)"
    decision = "EXTRACT(jsonPayload.decision)"
    reason   = "EXTRACT(jsonPayload.reason)"
  }

  metric_descriptor {
    metric_kind  = "DELTA"
    value_type   = "INT64"
    unit         = "1"
    display_name = "${var.name}: decisions"

    labels {
      key         = "function"
      description = "provision or collect."
    }

    labels {
      key         = "wake"
      description = "message, end (of an operation of GKE) or tick. A tick decides what messages missed."
    }

    labels {
      key         = "decision"
      description = "create, resize, delete, wait, keep, refuse, nothing, reject or none."
    }

    labels {
      key         = "reason"
      description = "One of the reasons in docs/runbook.md."
    }
  }
}

# Only a tick that ends writes its counts.
resource "google_logging_metric" "ticks" {
  project     = var.project_id
  name        = "${var.name}/ticks"
  description = "Ticks that ended."
  filter      = "${local.functions_filter}jsonPayload.wake=\"tick\"\njsonPayload.counts:*"

  label_extractors = {
    function = "EXTRACT(jsonPayload.function)"
    cluster  = "EXTRACT(jsonPayload.cluster)"
  }

  metric_descriptor {
    metric_kind  = "DELTA"
    value_type   = "INT64"
    unit         = "1"
    display_name = "${var.name}: ticks"

    labels {
      key         = "function"
      description = "provision or collect."
    }

    labels {
      key         = "cluster"
      description = "projects/P/locations/L/clusters/C."
    }
  }
}

resource "google_logging_metric" "waits" {
  project         = var.project_id
  name            = "${var.name}/waited_seconds"
  description     = "Seconds from the moment at which a leader pod is unschedulable until GKE accepts the create of its pool."
  filter          = "${local.functions_filter}jsonPayload.waited_seconds:*"
  value_extractor = "EXTRACT(jsonPayload.waited_seconds)"

  metric_descriptor {
    metric_kind  = "DELTA"
    value_type   = "DISTRIBUTION"
    unit         = "s"
    display_name = "${var.name}: seconds from pending to pool"
  }

  # 0.5 s to 4.5 hours: from a message that came at once to a slice that its quota held up.
  bucket_options {
    exponential_buckets {
      num_finite_buckets = 15
      growth_factor      = 2
      scale              = 0.5
    }
  }
}

resource "google_logging_metric" "figures" {
  for_each = local.cluster_figures

  project         = var.project_id
  name            = "${var.name}/${each.key}"
  description     = "${each.value.description} Exact meaning: docs/runbook.md, \"Demands that wait, chips that are idle\"."
  filter          = "${local.functions_filter}jsonPayload.wake=\"tick\"\njsonPayload.${each.key}:*"
  value_extractor = "EXTRACT(jsonPayload.${each.key})"

  label_extractors = {
    cluster = "EXTRACT(jsonPayload.cluster)"
  }

  metric_descriptor {
    metric_kind  = "DELTA"
    value_type   = "DISTRIBUTION"
    unit         = each.value.unit
    display_name = "${var.name}: ${replace(each.key, "_", " ")}"

    labels {
      key         = "cluster"
      description = "projects/P/locations/L/clusters/C."
    }
  }

  # Only the mean is read, and it is exact whatever the buckets are.
  bucket_options {
    exponential_buckets {
      num_finite_buckets = 20
      growth_factor      = 2
      scale              = 1
    }
  }
}
