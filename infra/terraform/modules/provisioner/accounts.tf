# Who everything runs as. One account for each thing that acts, none of them with keys. docs/rights.md is the list of
# who may do what and why; a test holds it against these files.

locals {
  accounts = {
    provision = "TPU provisioner: creates node pools"
    collect   = "TPU provisioner: deletes node pools that nothing needs"
    push      = "TPU provisioner: as whom Pub/Sub calls the functions"
    scheduler = "TPU provisioner: as whom Cloud Scheduler calls the functions"
    build     = "TPU provisioner: builds the functions' images"
  }
}

resource "google_service_account" "this" {
  for_each = local.accounts

  project      = var.project_id
  account_id   = "${var.name}-${each.key}"
  display_name = each.value
}

# A deleted custom role blocks its id for 37 days: for 7 it can be restored, then for 30 neither restored nor made anew
# (https://cloud.google.com/iam/docs/creating-custom-roles#deleting-custom-role). So each deployment has a time in its role's
# id. The time is kept in the state: it stays as long as the deployment, and the next one gets another.
resource "terraform_data" "deployed_at" {
  input = coalesce(var.deployed_at, formatdate("YYYYMMDDhhmmss", plantimestamp()))

  lifecycle {
    ignore_changes = [input]
  }
}

# GKE knows no right to node pools alone: an account that may update a cluster may change its pools and more. A condition
# limits this to the clusters that are served. "Google Kubernetes Engine regional clusters:
# projects/project-id/locations/location/clusters/cluster-id", and zonal clusters with "zones/zone"
# (https://cloud.google.com/iam/docs/conditions-resource-attributes#resource-name). Clusters are the only type of GKE there,
# so what names a pool begins with its cluster, or is checked as the cluster. Not in that list: instance groups; and a list
# of operations is asked of a location. So the role `reads` has no condition.
locals {
  cluster_names = {
    for key, each in local.clusters : key => concat(
      [local.cluster_paths[key]],
      length(split("-", each.location)) > 2 ? ["projects/${each.project}/zones/${each.location}/clusters/${each.name}"] : [],
    )
  }
  # One grant for each cluster, because an expression has at most 12 operators (https://cloud.google.com/iam/quotas).
  grants_on_clusters = merge([
    for scope in concat(
      [for key in keys(local.clusters) : { key = key, project = local.clusters[key].project, names = local.cluster_names[key] } if var.limit_to_clusters],
      [for project in local.cluster_projects : { key = project, project = project, names = [] } if !var.limit_to_clusters],
    ) : { for function in local.functions : "${scope.key}/${function}" => merge(scope, { function = function }) }
  ]...)
}

resource "google_project_iam_custom_role" "node_pools" {
  for_each = local.cluster_projects

  project     = each.key
  role_id     = "${replace(var.name, "-", "_")}_node_pools_${terraform_data.deployed_at.output}"
  title       = "${var.name}: node pools"
  description = "What the functions of ${var.name} in project ${var.project_id} need: node pools, and access to the cluster's API."
  permissions = [
    "container.clusters.connect",
    "container.clusters.get",
    "container.clusters.update",
  ]
}

resource "google_project_iam_member" "node_pools" {
  for_each = local.grants_on_clusters

  project = each.value.project
  role    = google_project_iam_custom_role.node_pools[each.value.project].id
  member  = google_service_account.this[each.value.function].member

  dynamic "condition" {
    for_each = length(each.value.names) > 0 ? [true] : []
    content {
      title      = "only the cluster ${basename(each.value.names[0])}" # assumes: cluster-condition
      expression = join(" || ", [for name in each.value.names : "resource.name == \"${name}\" || resource.name.startsWith(\"${name}/\")"])
    }
  }
}

# What became of a pool that GKE has accepted and that does not exist, and what keeps a pool from getting its machines.
resource "google_project_iam_custom_role" "reads" {
  for_each = local.cluster_projects

  project     = each.key
  role_id     = "${replace(var.name, "-", "_")}_reads_${terraform_data.deployed_at.output}"
  title       = "${var.name}: reads"
  description = "What the functions of ${var.name} in project ${var.project_id} need in addition: GKE's list of operations, and what instance groups say."
  permissions = ["compute.instanceGroupManagers.get", "container.operations.list"]
}

resource "google_project_iam_member" "reads" {
  for_each = {
    for pair in setproduct(local.cluster_projects, local.functions) : "${pair[0]}/${pair[1]}" => { project = pair[0], function = pair[1] }
  }

  project = each.value.project
  role    = google_project_iam_custom_role.reads[each.value.project].id
  member  = google_service_account.this[each.value.function].member
}

# A pool's creator must be allowed to use the account of its nodes. So `collect` can create none.
resource "google_service_account_iam_member" "node_accounts" {
  for_each = { for index, email in var.node_service_accounts : index => email }

  service_account_id = "projects/${split(".", split("@", each.value)[1])[0]}/serviceAccounts/${each.value}"
  role               = "roles/iam.serviceAccountUser"
  member             = google_service_account.this["provision"].member
}

# The exporter publishes as its Kubernetes account itself. The name does not tell clusters of one project apart, so any of
# them may publish: a message is only a hint to look, and names nothing that the functions would believe.
resource "google_pubsub_topic_iam_member" "exporter" {
  for_each = local.cluster_projects

  project = var.project_id
  topic   = google_pubsub_topic.workload_events.name
  role    = "roles/pubsub.publisher"
  member  = local.exporter_principals[each.key]
}

locals {
  exporter_principals = {
    for project, found in data.google_project.of_clusters : project =>
    "principal://iam.googleapis.com/projects/${found.number}/locations/global/workloadIdentityPools/${project}.svc.id.goog/subject/ns/${var.exporter_namespace}/sa/${var.exporter_account}"
  }
}
