# What wakes the functions once a minute. A failed tick is not repeated: the next minute brings the next.

locals {
  ticks = {
    for pair in setproduct(keys(local.clusters), local.functions) : "${pair[0]}/${pair[1]}" => { cluster = pair[0], function = pair[1] }
  }
}

# One job for each cluster and function, so that no cluster waits for another.
resource "google_cloud_scheduler_job" "ticks" {
  for_each = local.ticks

  project          = var.project_id
  region           = var.region
  name             = "${var.name}-${each.value.function}-${each.value.cluster}"
  description      = "Lets ${each.value.function} look at all of ${local.cluster_paths[each.value.cluster]}, in case a message was lost."
  schedule         = "* * * * *"
  time_zone        = "Etc/UTC"
  paused           = false # what a destroy build has paused that then stopped half-way
  attempt_deadline = "${local.timeout_seconds}s"

  retry_config {
    retry_count = 0
  }

  http_target {
    http_method = "POST"
    uri         = "${local.deployed[each.value.function].service_config[0].uri}/tick?cluster=${local.cluster_paths[each.value.cluster]}"

    oidc_token {
      service_account_email = local.emails.scheduler
      audience              = local.deployed[each.value.function].service_config[0].uri
    }
  }

  depends_on = [google_cloud_run_v2_service_iam_binding.invokers]
}
