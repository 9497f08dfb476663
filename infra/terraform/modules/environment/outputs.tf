output "cluster" {
  description = "The cluster, in the form of the provisioner's variable `clusters`."
  # The name is taken from the id, which is unknown until there is a cluster: who looks it up then waits for it.
  value = {
    name     = element(split("/", google_container_cluster.this.id), 5)
    location = var.region
    project  = var.project_id
    zone     = var.zone
    endpoint = var.control_plane_access
  }
}

output "cluster_id" {
  description = "Full name of the cluster: projects/P/locations/L/clusters/C."
  value       = google_container_cluster.this.id
}

output "credentials_command" {
  description = "Command that lets kubectl reach the cluster, by its DNS endpoint or private address."
  value       = "gcloud container clusters get-credentials ${google_container_cluster.this.name} --location ${var.region} --project ${var.project_id} ${local.by_address ? "--internal-ip" : "--dns-endpoint"}"
}

output "workload" {
  description = "The training workloads' namespaces, their ServiceAccount, and their IAM principals by namespace."
  value = {
    namespaces         = local.namespaces
    kubernetes_account = var.tpu_sa_name
    principals         = local.workload_principals
  }
}

output "bucket_url" {
  description = "URL of the bucket: gs://NAME."
  value       = google_storage_bucket.artifacts.url
}

output "image_repository" {
  description = "Where the users' images are pushed to and pulled from: REGION-docker.pkg.dev/PROJECT/NAME; empty if no repository is created."
  value       = var.image_repository_name == "" ? "" : "${var.region}-docker.pkg.dev/${var.project_id}/${google_artifact_registry_repository.images[0].repository_id}"
}

output "tensorboard" {
  description = "Full name of the TensorBoard; empty if none is created."
  value       = var.create_tensorboard ? google_vertex_ai_tensorboard.this[0].name : ""
}

output "tpu_pools" {
  description = "Static TPU pools, by name."
  value = {
    for pool in google_container_node_pool.tpu :
    pool.name => { machine_type = local.slice.machine_type, nodes = local.slice.nodes, zone = var.zone }
  }
}

output "workload_policies" {
  description = "Workload policies of tpu7x slices, by topology."
  value       = { for topology, policy in google_compute_resource_policy.slice : topology => policy.name }
}
