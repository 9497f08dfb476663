# Who the workloads are. A workload acts as its ServiceAccount, which IAM knows by a principal of its own
# (https://cloud.google.com/kubernetes-engine/docs/how-to/workload-identity): no Google service account and no key.

data "google_project" "this" {
  project_id = var.project_id
}

locals {
  namespaces    = concat([var.tpu_namespace], var.more_namespaces)
  workload_pool = "projects/${data.google_project.this.number}/locations/global/workloadIdentityPools/${var.project_id}.svc.id.goog"
  workload_principals = {
    for namespace in local.namespaces :
    namespace => "principal://iam.googleapis.com/${local.workload_pool}/subject/ns/${namespace}/sa/${var.tpu_sa_name}"
  }
}
