# Every validation refuses something. What does not depend on each other is refused in one run: each run starts the provider.

mock_provider "google" {}

variables {
  project_id           = "training-project"
  cluster_id           = "projects/training-project/locations/us-east5/clusters/train"
  region               = "us-east5"
  zone                 = "us-east5-b"
  tpu_type             = "v5e-16"
  num_tpu_pools        = 2
  node_service_account = "gke-sa@training-project.iam.gserviceaccount.com"
}

run "of_the_place" {
  command = plan

  variables {
    # a project by its number
    project_id = "123456789"
    # a cluster by its short name
    cluster_id = "train"
    # a zone of another region
    zone = "us-west4-a"
    # nodes without an account
    node_service_account = "gke-sa"
    # more pods than gke allows
    max_pods_per_node = 257
    # a key by its short name
    boot_disk_kms_key = "training"
  }

  expect_failures = [
    var.project_id,
    var.cluster_id,
    var.zone,
    var.node_service_account,
    var.max_pods_per_node,
    var.boot_disk_kms_key,
  ]
}

run "of_the_pools" {
  command = plan

  variables {
    # a slice that does not exist
    tpu_type = "v5e-17"
    # half a pool
    num_tpu_pools = 1.5
    # a prefix too long for a pools name
    tpu_node_pool_name_prefix = join("", [for i in range(38) : "x"])
    # a group name that is no label
    multislice_group_name = "multi slice"
    # a policy prefix with underscores
    workload_policy_prefix = "tpu_policies"
    # a policy for a generation that needs none
    workload_policy_topologies = ["4x4"]
    # a reservation that would not be used
    tpu_reservation = "mine"
  }

  expect_failures = [
    var.tpu_type,
    var.num_tpu_pools,
    var.tpu_node_pool_name_prefix,
    var.multislice_group_name,
    var.workload_policy_prefix,
    var.workload_policy_topologies,
    var.tpu_reservation,
  ]
}

run "a_zone_as_region" {
  command = plan

  variables {
    region = "us-east5-b"
    zone   = "us-east5-b-b"
  }

  expect_failures = [var.region]
}

run "a_generation_that_does_not_exist" {
  command = plan

  variables {
    tpu_type = "v9-16"
  }

  expect_failures = [var.tpu_type]
}

run "flex_start" {
  command = plan

  variables {
    tpu_capacity = "flex-start"
  }

  expect_failures = [var.tpu_capacity]
}

run "a_reservation_without_its_name" {
  command = plan

  variables {
    tpu_capacity = "reservation"
  }

  expect_failures = [var.tpu_reservation]
}

run "a_reservation_that_is_no_name" {
  command = plan

  variables {
    tpu_capacity    = "reservation"
    tpu_reservation = "projects/p/mine"
  }

  expect_failures = [var.tpu_reservation]
}
