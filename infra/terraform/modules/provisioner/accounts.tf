# Who everything runs as. infra/bootstrap.sh makes the accounts, their custom roles and their grants, because a build may
# grant nothing on the project; docs/permissions.md is the list, and a test holds it against both.

locals {
  accounts = {
    provision = "TPU provisioner: creates node pools"
    collect   = "TPU provisioner: deletes node pools that nothing needs"
    push      = "TPU provisioner: as whom Pub/Sub calls the functions"
    scheduler = "TPU provisioner: as whom Cloud Scheduler calls the functions"
    build     = "TPU provisioner: builds the functions' images"
  }
  emails     = { for key in keys(local.accounts) : key => "${var.name}-${key}@${var.project_id}.iam.gserviceaccount.com" }
  repository = "projects/${var.project_id}/locations/${var.region}/repositories/${var.name}-images"

  # The chart has these names (infra/helm).
  exporter_namespace = "tpu-provisioner"
  exporter_principals = {
    for project, each in data.google_project.of_clusters : project =>
    "principal://iam.googleapis.com/projects/${each.number}/locations/global/workloadIdentityPools/${project}.svc.id.goog/subject/ns/${local.exporter_namespace}/sa/tpu-provisioner-exporter"
  }
}

# The exporter publishes as its ServiceAccount itself. The name does not tell clusters of one project apart, so any of
# them may publish: a message is only a hint to look, and names nothing that the functions would believe.
resource "google_pubsub_topic_iam_member" "exporter" {
  for_each = local.cluster_projects

  project = var.project_id
  topic   = google_pubsub_topic.workload_events.name
  role    = "roles/pubsub.publisher"
  member  = local.exporter_principals[each.key]
}
