# What wakes the sweep. A failed attempt is not repeated: the next minute brings the next.

resource "google_cloud_scheduler_job" "sweep" {
  project          = var.project_id
  region           = var.region
  name             = "${var.name}-sweep"
  description      = "Looks at every node pool and every waiting leader pod, in case a message was lost."
  schedule         = "* * * * *"
  time_zone        = "Etc/UTC"
  paused           = false # what a destroy build has paused that then stopped half-way
  attempt_deadline = "${local.functions.sweep.timeout_seconds}s"

  retry_config {
    retry_count = 0
  }

  http_target {
    http_method = "POST"
    uri         = google_cloudfunctions2_function.this["sweep"].service_config[0].uri

    oidc_token {
      service_account_email = google_service_account.this["scheduler"].email
      audience              = google_cloudfunctions2_function.this["sweep"].service_config[0].uri
    }
  }

  depends_on = [google_cloud_run_v2_service_iam_binding.invokers]
}
