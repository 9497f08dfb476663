# A place for the users' images. The exporter's image has a repository of its own, which the build makes.

resource "google_artifact_registry_repository" "images" {
  count = var.image_repository_name == "" ? 0 : 1

  project       = var.project_id
  location      = var.region
  repository_id = var.image_repository_name
  format        = "DOCKER"
  kms_key_name  = local.kms_key
  description   = "Images of the training workloads of cluster ${var.cluster_name}"
}
