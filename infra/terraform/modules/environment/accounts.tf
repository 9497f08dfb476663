# Who the nodes and the workloads are, and what they may do. A workload acts as its Kubernetes account, which IAM knows
# by a principal of its own (https://cloud.google.com/kubernetes-engine/docs/how-to/workload-identity): no Google account
# and no key. tpu_sa_name is the name of that Kubernetes account. Who still has the annotation
# iam.gke.io/gcp-service-account on it sets create_tpu_google_service_account, and gets a Google account of that name too.

data "google_project" "this" {
  project_id = var.project_id
}

locals {
  node_roles     = toset([for role in var.gke_sa_roles : strcontains(role, "/") ? role : "roles/${role}"])
  workload_roles = toset([for role in var.tpu_sa_roles : strcontains(role, "/") ? role : "roles/${role}"])

  workload_pool = "projects/${data.google_project.this.number}/locations/global/workloadIdentityPools/${var.project_id}.svc.id.goog"
  workload_principals = {
    for namespace in concat([var.tpu_namespace], var.more_namespaces) :
    namespace => "principal://iam.googleapis.com/${local.workload_pool}/subject/ns/${namespace}/sa/${var.tpu_sa_name}"
  }
  workload_members = merge(
    { kubernetes = local.workload_principals[var.tpu_namespace] },
    { for namespace in var.more_namespaces : "kubernetes in ${namespace}" => local.workload_principals[namespace] },
    var.create_tpu_google_service_account ? { google = "serviceAccount:${google_service_account.workload[0].email}" } : {},
  )
  # Keys of workload_members that are known before any of its values.
  workload_identities = concat(
    ["kubernetes"],
    [for namespace in var.more_namespaces : "kubernetes in ${namespace}"],
    var.create_tpu_google_service_account ? ["google"] : [],
  )
}

resource "google_service_account" "node" {
  project      = var.project_id
  account_id   = var.gke_sa_name
  display_name = "Nodes of cluster ${var.cluster_name}"
}

resource "google_project_iam_member" "node" {
  for_each = local.node_roles

  project = var.project_id
  role    = each.value
  member  = "serviceAccount:${google_service_account.node.email}"
}

resource "google_service_account" "workload" {
  count = var.create_tpu_google_service_account ? 1 : 0

  project      = var.project_id
  account_id   = var.tpu_sa_name
  display_name = "Training workloads of cluster ${var.cluster_name}"
}

# A service account's IAM names a Kubernetes account that need not be there yet; the pool of names must, so the cluster.
resource "google_service_account_iam_member" "workload" {
  count = var.create_tpu_google_service_account ? 1 : 0

  service_account_id = google_service_account.workload[0].name
  role               = "roles/iam.workloadIdentityUser"
  member             = "serviceAccount:${var.project_id}.svc.id.goog[${var.tpu_namespace}/${var.tpu_sa_name}]"

  depends_on = [google_container_cluster.this]
}

resource "google_service_account_iam_member" "workload_elsewhere" {
  for_each = toset(var.create_tpu_google_service_account ? var.more_namespaces : [])

  service_account_id = google_service_account.workload[0].name
  role               = "roles/iam.workloadIdentityUser"
  member             = "serviceAccount:${var.project_id}.svc.id.goog[${each.value}/${var.tpu_sa_name}]"

  depends_on = [google_container_cluster.this]
}

resource "google_project_iam_member" "workload" {
  for_each = {
    for pair in setproduct(local.workload_identities, local.workload_roles) : "${pair[0]} ${pair[1]}" => { identity = pair[0], role = pair[1] }
  }

  project = var.project_id
  role    = each.value.role
  member  = local.workload_members[each.value.identity]

  depends_on = [google_container_cluster.this]
}
