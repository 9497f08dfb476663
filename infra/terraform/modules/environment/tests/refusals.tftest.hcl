# Every validation refuses something. What does not depend on each other is refused in one run: each run starts the provider.

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

run "of_the_cluster" {
  command = plan

  variables {
    # a project by its number
    project_id = "123456789"
    # a zone of another region
    zone = "us-west4-a"
    # a cluster name with capitals
    cluster_name = "Train"
    # an unknown release channel
    gke_release_channel = "SLOW"
    # a version that is none
    gke_version = "newest"
    # no node for controllers
    cpu_pool_node_count = 0
    # cpu nodes in another region
    cpu_pool_zones = ["us-west4-a"]
    # a machine type that is none
    cpu_pool_machine_type = "large"
    # a disk type that is none
    cpu_pool_disk_type = "ssd"
    # a disk too small
    cpu_pool_disk_size = 5
    # more pods than gke allows
    max_pods_per_node = 257
  }

  expect_failures = [
    var.project_id,
    var.zone,
    var.cluster_name,
    var.gke_release_channel,
    var.gke_version,
    var.cpu_pool_node_count,
    var.cpu_pool_zones,
    var.cpu_pool_machine_type,
    var.cpu_pool_disk_type,
    var.cpu_pool_disk_size,
    var.max_pods_per_node,
  ]
}

run "of_the_network" {
  command = plan

  variables {
    # a network name with underscores
    network_name = "my_network"
    # a subnet name with underscores
    subnet_name = "my_subnet"
    # nodes without a range
    subnet_ip_range = "10.129.0.0"
    # pods without a range
    pods_ip_range = "10.132.0.0/40"
    # services without a range
    services_ip_range = "many"
    # services in the range of the pods
    services_range_name = "pods"
  }

  expect_failures = [
    var.network_name,
    var.subnet_name,
    var.subnet_ip_range,
    var.pods_ip_range,
    var.services_ip_range,
    var.services_range_name,
  ]
}

run "of_the_accounts_and_the_bucket" {
  command = plan

  variables {
    # a workload account too short
    tpu_sa_name = "tpu"
    # a namespace with dots
    tpu_namespace = "tpu.training"
    # a bucket name with capitals
    artifact_repository_bucket_name = "Artifacts"
    # a soft delete shorter than google allows
    bucket_soft_delete_seconds = 3600
    # a zone for the tensorboard
    tensorboard_region = "us-central1-a"
    # a tensorboard name too long
    tensorboard_name = join("", [for i in range(129) : "x"])
  }

  expect_failures = [
    var.tpu_sa_name,
    var.tpu_namespace,
    var.artifact_repository_bucket_name,
    var.bucket_soft_delete_seconds,
    var.tensorboard_region,
    var.tensorboard_name,
  ]
}

run "of_the_workloads" {
  command = plan

  variables {
    # the workloads' first namespace once more
    more_namespaces = ["research", "tpu-training"]
    # a repository name with a path
    image_repository_name = "team/images"
  }

  expect_failures = [
    var.more_namespaces,
    var.image_repository_name,
  ]
}

run "a_namespace_with_capitals" {
  command = plan

  variables {
    more_namespaces = ["Research"]
  }

  expect_failures = [var.more_namespaces]
}

run "a_zone_as_region" {
  command = plan

  variables {
    region = "us-east5-b"
    zone   = "us-east5-b-b"
  }

  expect_failures = [var.region]
}

run "a_range_of_pods_without_a_name" {
  command = plan

  variables {
    pods_range_name = ""
  }

  expect_failures = [var.pods_range_name]
}

run "a_pod_range_too_small_for_what_is_asked_for" {
  command = plan

  variables {
    pods_ip_range = "192.168.64.0/20"
    tpu_type      = "v5e-64"
    num_tpu_pools = 1
  }

  expect_failures = [google_compute_subnetwork.this]
}

run "an_existing_subnet_without_the_ranges" {
  command = plan

  variables {
    create_network  = false
    pods_range_name = "gke-pods"
  }

  expect_failures = [data.google_compute_subnetwork.existing]
}

run "private_nodes_on_a_subnet_that_reaches_no_google_api" {
  command = plan

  variables {
    create_network = false
  }

  override_data {
    target = data.google_compute_subnetwork.existing[0]
    values = {
      private_ip_google_access = false
      secondary_ip_range = [
        { range_name = "pods", ip_cidr_range = "10.132.0.0/14" },
        { range_name = "services", ip_cidr_range = "192.168.80.0/20" },
      ]
    }
  }

  expect_failures = [data.google_compute_subnetwork.existing]
}
