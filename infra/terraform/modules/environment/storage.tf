# The bucket for code, data and checkpoints, and the optional TensorBoard.

resource "google_storage_bucket" "artifacts" {
  project  = var.project_id
  name     = var.artifact_repository_bucket_name
  location = var.region

  force_destroy               = var.force_destroy
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"

  versioning {
    enabled = var.bucket_versioning
  }

  dynamic "encryption" {
    for_each = local.kms_key[*]
    content {
      default_kms_key_name = encryption.value
    }
  }

  soft_delete_policy {
    retention_duration_seconds = var.bucket_soft_delete_seconds
  }
}

# objectUser reads, writes and deletes objects; legacyBucketReader adds what tools ask about the bucket itself.
resource "google_storage_bucket_iam_member" "workload" {
  for_each = {
    for pair in setproduct(local.namespaces, ["roles/storage.objectUser", "roles/storage.legacyBucketReader"]) :
    "${pair[0]} ${pair[1]}" => { namespace = pair[0], role = pair[1] }
  }

  bucket = google_storage_bucket.artifacts.name
  role   = each.value.role
  member = local.workload_principals[each.value.namespace]

  depends_on = [google_container_cluster.this]
}

resource "google_vertex_ai_tensorboard" "this" {
  count = var.create_tensorboard ? 1 : 0

  project      = var.project_id
  region       = var.tensorboard_region
  display_name = var.tensorboard_name == "" ? "${var.cluster_name}-tensorboard" : var.tensorboard_name

  dynamic "encryption_spec" {
    for_each = local.kms_key[*]
    content {
      kms_key_name = encryption_spec.value
    }
  }
}
