# What is made of which setting, without Google Cloud: the provider's schema is real, its answers are made up.

mock_provider "google" {
  source = "./tests/mocks"
}

variables {
  node_service_account            = "tpu-provisioner-nodes@training-project.iam.gserviceaccount.com"
  project_id                      = "training-project"
  region                          = "us-east5"
  zone                            = "us-east5-b"
  cluster_name                    = "train"
  network_name                    = "train-network"
  subnet_name                     = "train-subnet"
  artifact_repository_bucket_name = "training-project-artifacts"
}

run "as_it_comes" {
  assert {
    condition     = !google_storage_bucket.artifacts.force_destroy && google_storage_bucket.artifacts.soft_delete_policy[0].retention_duration_seconds == 604800
    error_message = "Checkpoints go with no bucket, and deleted ones can be restored for a week."
  }
  assert {
    condition     = google_compute_subnetwork.this[0].private_ip_google_access && tolist(google_compute_subnetwork.this[0].secondary_ip_range[*].range_name) == tolist(["pods", "services"])
    error_message = "Nodes must reach Google's APIs, and pods and services have ranges of their own."
  }
  assert {
    condition     = google_container_cluster.this.location == "us-east5" && google_container_cluster.this.node_locations == toset(["us-east5-b"]) && google_container_cluster.this.remove_default_node_pool && google_container_cluster.this.deletion_protection
    error_message = "The cluster is regional, without a default pool, and only the destroy build removes it."
  }
  assert {
    condition     = google_container_cluster.this.control_plane_endpoints_config[0].dns_endpoint_config[0].allow_external_traffic && google_container_cluster.this.workload_identity_config[0].workload_pool == "training-project.svc.id.goog"
    error_message = "The provisioner needs the DNS endpoint and Workload Identity."
  }
  assert {
    condition     = google_container_cluster.this.node_config[0].service_account == var.node_service_account && google_container_node_pool.cpu.node_config[0].service_account == var.node_service_account
    error_message = "No node may run as the project's default account."
  }
  assert {
    condition     = google_container_node_pool.cpu.node_count == 3 && google_container_node_pool.cpu.node_config[0].machine_type == "n2-standard-2" && google_container_node_pool.cpu.node_config[0].shielded_instance_config[0].enable_secure_boot
    error_message = "Three shielded CPU nodes carry the controllers."
  }
  assert {
    condition     = google_container_cluster.this.private_cluster_config[0].enable_private_nodes && google_compute_router.this[0].name == "train-router" && google_compute_router_nat.this[0].source_subnetwork_ip_ranges_to_nat == "LIST_OF_SUBNETWORKS"
    error_message = "Nodes have no public address, and Cloud NAT serves this subnet alone."
  }
  assert {
    condition     = !google_container_cluster.this.control_plane_endpoints_config[0].ip_endpoints_config[0].enabled
    error_message = "The control plane has no public address: everything of ours uses the DNS endpoint."
  }
  assert {
    condition     = google_container_cluster.this.maintenance_policy[0].recurring_window[0].recurrence == "FREQ=WEEKLY;BYDAY=SA,SU"
    error_message = "GKE upgrades the cluster at weekends."
  }
  assert {
    condition     = length(google_vertex_ai_tensorboard.this) == 0 && output.tensorboard == ""
    error_message = "A TensorBoard costs money: none unless asked for."
  }
  assert {
    condition     = length(google_artifact_registry_repository.images) == 0 && output.image_repository == "" && output.workload.namespaces == [var.tpu_namespace]
    error_message = "No repository and no other namespace that nobody asked for."
  }
  assert {
    condition     = length(output.tpu_pools) == 0 && local.slice.topology == "2x2x2" && local.slice.chips == 8
    error_message = "TPU pools come on demand, and Kueue's quota is still known."
  }
  assert {
    condition     = output.cluster == { name = "train", location = "us-east5", project = "training-project", zone = "us-east5-b", endpoint = "dns" }
    error_message = "The provisioner must be told of the cluster as its variable wants it."
  }
}

run "another_zone_moves_no_nodes_of_all_pools" {
  variables {
    zone = "us-east5-c"
  }

  assert {
    condition     = google_container_cluster.this.node_locations == toset(["us-east5-b"]) && google_container_node_pool.cpu.node_locations == toset(["us-east5-c"])
    error_message = "Only the CPU pool follows the zone: GKE would move the nodes of every pool with the cluster's zones."
  }
}

run "workloads_act_as_their_kubernetes_account" {
  assert {
    condition     = output.workload.principals[var.tpu_namespace] == "principal://iam.googleapis.com/projects/123456789/locations/global/workloadIdentityPools/training-project.svc.id.goog/subject/ns/tpu-training/sa/cloud-tpu-sa"
    error_message = "The principal is that of the Kubernetes account in the workloads' namespace."
  }
  assert {
    condition     = toset(values(google_storage_bucket_iam_member.workload)[*].member) == toset([output.workload.principals[var.tpu_namespace]]) && toset(values(google_storage_bucket_iam_member.workload)[*].role) == toset(["roles/storage.objectUser", "roles/storage.legacyBucketReader"])
    error_message = "Workloads read and write the bucket, and only as that principal."
  }
}

run "several_teams_with_images_of_their_own" {
  variables {
    more_namespaces       = ["research", "serving"]
    image_repository_name = "training"
  }

  assert {
    condition     = toset([for each in google_storage_bucket_iam_member.workload : each.member if each.role == "roles/storage.objectUser"]) == toset([for namespace in ["tpu-training", "research", "serving"] : replace(output.workload.principals["tpu-training"], "ns/tpu-training", "ns/${namespace}")])
    error_message = "Workloads of every namespace reach the bucket."
  }
  assert {
    condition     = output.image_repository == "us-east5-docker.pkg.dev/training-project/training"
    error_message = "The users' images have a place."
  }
}

run "public_if_that_is_asked_for" {
  variables {
    enable_private_nodes = false
    enable_ip_endpoints  = true
    maintenance_window   = null
  }

  assert {
    condition     = length(google_container_cluster.this.private_cluster_config) == 0 && google_container_cluster.this.control_plane_endpoints_config[0].ip_endpoints_config[0].enabled
    error_message = "Nodes and control plane have public addresses if that is asked for."
  }
  assert {
    condition     = length(google_compute_router_nat.this) == 0 && length(google_container_cluster.this.maintenance_policy) == 0
    error_message = "Public nodes need no Cloud NAT, and GKE may upgrade at any time."
  }
}

run "a_network_that_is_there" {
  variables {
    create_network = false
    create_nat     = false
  }

  assert {
    condition     = length(google_compute_network.this) == 0 && length(google_compute_subnetwork.this) == 0 && length(google_compute_router.this) == 0
    error_message = "Nothing of the network is made."
  }
  assert {
    condition     = google_container_cluster.this.subnetwork == "projects/training-project/regions/us-east5/subnetworks/train-subnet"
    error_message = "The cluster lives in the subnet that is there."
  }
}

run "the_environment_to_measure_with" {
  variables {
    create_tensorboard         = true
    tensorboard_region         = "europe-west4"
    bucket_versioning          = true
    bucket_soft_delete_seconds = 0
    force_destroy              = true
    deletion_protection        = false
    cpu_pool_zones             = ["us-east5-a", "us-east5-c"]
    gke_release_channel        = "RAPID"
    gke_version                = "1.34"
  }

  assert {
    condition     = google_vertex_ai_tensorboard.this[0].region == "europe-west4" && google_vertex_ai_tensorboard.this[0].display_name == "train-tensorboard"
    error_message = "The TensorBoard is called after the cluster, and workloads may write to it."
  }
  assert {
    condition     = google_storage_bucket.artifacts.versioning[0].enabled && google_storage_bucket.artifacts.soft_delete_policy[0].retention_duration_seconds == 0 && google_storage_bucket.artifacts.force_destroy
    error_message = "What the bucket keeps is as asked."
  }
  assert {
    condition     = !google_container_cluster.this.deletion_protection && google_container_node_pool.cpu.node_locations == toset(["us-east5-a", "us-east5-c"])
    error_message = "The cluster is not protected, and its CPU nodes are in two zones."
  }
  assert {
    condition     = google_container_cluster.this.release_channel[0].channel == "RAPID" && google_container_cluster.this.min_master_version == "1.34"
    error_message = "Channel and version are as asked."
  }
}

run "static_pools" {
  variables {
    tpu_type                   = "tpu7x-128"
    num_tpu_pools              = 2
    tpu_node_pool_name_prefix  = "ironwood"
    workload_policy_prefix     = "mine-"
    workload_policy_topologies = ["2x2x2"]
  }

  assert {
    condition     = keys(output.tpu_pools) == ["ironwood-0", "ironwood-1"] && output.tpu_pools["ironwood-1"] == { machine_type = "tpu7x-standard-4t", nodes = 16, zone = "us-east5-b" }
    error_message = "Two pools of one slice each."
  }
  assert {
    condition     = output.workload_policies == { "2x2x2" = "mine-2x2x2", "4x4x4" = "mine-4x4x4" }
    error_message = "Policies for the pools here and for those on demand, by a prefix that the provisioner is told."
  }
}

run "the_pods_of_one_large_slice_fit" {
  command = plan

  variables {
    tpu_type      = "v5e-256"
    num_tpu_pools = 10
  }

  assert {
    condition     = local.nodes_planned == 643 && local.nodes_at_most == 1024
    error_message = "The default range has room for ten of the largest v5e slices."
  }
}
