# Every validation refuses something. What does not depend on each other is refused in one run: each run starts the provider.

mock_provider "google" {
  source = "./tests/mocks"
}

variables {
  project_id                      = "training-project"
  region                          = "us-east5"
  zone                            = "us-east5-b"
  cluster_name                    = "train"
  network_name                    = "train-network"
  subnet_name                     = "train-subnet"
  artifact_repository_bucket_name = "training-artifacts"
  node_service_account            = "nodes@training-project.iam.gserviceaccount.com"
  tpu_type                        = "v5e-16"
  num_tpu_pools                   = 2
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
