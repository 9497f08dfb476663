# What is known about the clusters that are served, and what each of them must have.

locals {
  clusters         = { for key, each in var.clusters : key => merge(each, { project = coalesce(each.project, var.project_id) }) }
  cluster_projects = toset([for each in local.clusters : each.project])
  cluster_paths = {
    for key, each in local.clusters : key => "projects/${each.project}/locations/${each.location}/clusters/${each.name}"
  }
}

data "google_project" "home" {
  project_id = var.project_id
}

data "google_project" "of_clusters" {
  for_each = local.cluster_projects

  project_id = each.key
}

data "google_container_cluster" "served" {
  for_each = local.clusters

  project  = each.value.project
  location = each.value.location
  name     = each.value.name

  lifecycle {
    # The functions reach a cluster by its DNS endpoint, unless they are given a way to its private address.
    postcondition {
      condition     = each.value.endpoint == "private" || try(self.control_plane_endpoints_config[0].dns_endpoint_config[0].allow_external_traffic, false)
      error_message = "Cluster ${each.value.name} has no DNS endpoint for access from outside. Enable it with: gcloud container clusters update ${each.value.name} --location=${each.value.location} --project=${each.value.project} --enable-dns-access"
    }

    postcondition {
      condition     = each.value.endpoint == "dns" || try(self.private_cluster_config[0].private_endpoint, "") != ""
      error_message = "Cluster ${each.value.name} has no private address. Enable it with: gcloud container clusters update ${each.value.name} --location=${each.value.location} --project=${each.value.project} --enable-ip-access"
    }

    postcondition {
      condition     = !var.require_private_nodes || try(self.private_cluster_config[0].enable_private_nodes, false)
      error_message = "require_private_nodes: cluster ${each.value.name} gives new nodes public addresses. Change it with: gcloud container clusters update ${each.value.name} --location=${each.value.location} --project=${each.value.project} --enable-private-nodes"
    }

    postcondition {
      condition     = try(self.workload_identity_config[0].workload_pool, "") == "${each.value.project}.svc.id.goog"
      error_message = "Cluster ${each.value.name} has no Workload Identity, so its exporter cannot publish. Enable it with: gcloud container clusters update ${each.value.name} --location=${each.value.location} --project=${each.value.project} --workload-pool=${each.value.project}.svc.id.goog"
    }

    postcondition {
      condition     = try(self.enable_autopilot, false) != true
      error_message = "Cluster ${each.value.name} is an Autopilot cluster, in which only GKE creates node pools. Name a Standard cluster."
    }
  }
}
