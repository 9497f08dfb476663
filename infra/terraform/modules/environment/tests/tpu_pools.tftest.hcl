# What is made of which setting.

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

run "a_pool_for_each_slice" {
  command = plan

  assert {
    condition     = google_container_node_pool.tpu[*].name == ["tpu-node-pool-0", "tpu-node-pool-1"]
    error_message = "Two pools, numbered from 0."
  }
  assert {
    condition     = alltrue([for pool in google_container_node_pool.tpu : pool.initial_node_count == 4 && pool.node_config[0].machine_type == "ct5lp-hightpu-4t"])
    error_message = "A v5e-16 slice is four hosts of four chips."
  }
  assert {
    condition     = alltrue([for pool in google_container_node_pool.tpu : pool.placement_policy[0].type == "COMPACT" && pool.placement_policy[0].tpu_topology == "4x4"])
    error_message = "The hosts of a multi-host slice are placed together."
  }
  assert {
    condition     = alltrue([for pool in google_container_node_pool.tpu : pool.node_config[0].labels == tomap({ MultisliceGroup = "multi-slice-group", MultisliceGroupSize = "2" })])
    error_message = "Several pools form a group, and carry no label but the group's."
  }
  assert {
    condition     = alltrue([for pool in google_container_node_pool.tpu : pool.management[0].auto_upgrade && pool.maintenance_policy[0].exclusion_until_end_of_support[0].enabled])
    error_message = "On a release channel upgrades are put off."
  }
  assert {
    condition     = length(google_compute_resource_policy.slice) == 0
    error_message = "Only tpu7x needs a workload policy."
  }
}

run "no_pool_at_all" {
  command = plan

  variables {
    num_tpu_pools = 0
  }

  assert {
    condition     = length(google_container_node_pool.tpu) == 0 && local.slice.chips == 16
    error_message = "Nothing is made, and what a slice is can still be read."
  }
}

run "one_pool_alone_is_no_group" {
  command = plan

  variables {
    num_tpu_pools = 1
  }

  assert {
    condition     = length(google_container_node_pool.tpu[0].node_config[0].labels) == 0
    error_message = "One pool carries no labels at all."
  }
}

run "a_single_host_has_no_placement" {
  command = plan

  variables {
    tpu_type = "v6e-8"
  }

  assert {
    condition     = alltrue([for pool in google_container_node_pool.tpu : pool.initial_node_count == 1 && pool.node_config[0].machine_type == "ct6e-standard-8t" && length(pool.placement_policy) == 0])
    error_message = "v6e-8 is one host of eight chips, which GKE refuses to place."
  }
}

run "the_same_topology_on_two_hosts" {
  command = plan

  variables {
    tpu_type = "v6e-2x4"
  }

  assert {
    condition     = alltrue([for pool in google_container_node_pool.tpu : pool.initial_node_count == 2 && pool.node_config[0].machine_type == "ct6e-standard-4t" && pool.placement_policy[0].tpu_topology == "2x4"])
    error_message = "v6e-2x4 is two hosts of four chips."
  }
}

run "a_name_of_v4_counts_cores" {
  command = plan

  variables {
    tpu_type = "v4-16"
  }

  assert {
    condition     = local.slice.chips == 8 && local.slice.nodes == 2 && local.slice.topology == "2x2x2"
    error_message = "v4-16 is eight chips on two hosts."
  }
}

run "tpu7x_is_placed_by_a_workload_policy" {
  command = plan

  variables {
    tpu_type                   = "tpu7x-128"
    workload_policy_topologies = ["2x2x2", "4x4x4"]
  }

  assert {
    condition     = { for topology, policy in google_compute_resource_policy.slice : topology => policy.name } == { "2x2x2" = "tpu-provisioner-2x2x2", "4x4x4" = "tpu-provisioner-4x4x4" }
    error_message = "One policy for each topology, of the pools here and of those on demand."
  }
  assert {
    condition     = alltrue([for policy in values(google_compute_resource_policy.slice) : policy.workload_policy[0].type == "HIGH_THROUGHPUT"])
    error_message = "The policy is one for slices."
  }
  assert {
    condition     = alltrue([for pool in google_container_node_pool.tpu : pool.placement_policy[0].type == "" && pool.placement_policy[0].policy_name == "tpu-provisioner-4x4x4" && pool.initial_node_count == 16])
    error_message = "A pool names the policy, and no type."
  }
}

run "policies_for_pools_on_demand_alone" {
  command = plan

  variables {
    num_tpu_pools              = 0
    tpu_type                   = "tpu7x-128"
    workload_policy_topologies = ["2x2x4"]
  }

  assert {
    condition     = keys(google_compute_resource_policy.slice) == ["2x2x4"]
    error_message = "Without static pools only the policies that are asked for are made."
  }
}

run "slices_by_the_autoscaler" {
  command = plan

  variables {
    enable_tpu_autoscaling = true
  }

  assert {
    condition     = alltrue([for pool in google_container_node_pool.tpu : pool.initial_node_count == 0 && pool.autoscaling[0].max_node_count == 4 && pool.autoscaling[0].location_policy == "ANY"])
    error_message = "Empty at first, and all hosts of the slice or none."
  }
}

run "spot" {
  command = plan

  variables {
    tpu_capacity = "spot"
  }

  assert {
    condition     = alltrue([for pool in google_container_node_pool.tpu : pool.node_config[0].spot && pool.node_config[0].taint[0].key == "cloud.google.com/gke-spot"])
    error_message = "Spot nodes carry the taint that GKE does not add."
  }
}

run "a_reservation" {
  command = plan

  variables {
    tpu_capacity    = "reservation"
    tpu_reservation = "projects/other-project/reservations/mine"
  }

  assert {
    condition     = alltrue([for pool in google_container_node_pool.tpu : pool.node_config[0].reservation_affinity[0].values == toset(["projects/other-project/reservations/mine"]) && !pool.node_config[0].spot])
    error_message = "The nodes come out of the named reservation."
  }
}

run "without_a_release_channel" {
  command = plan

  variables {
    on_release_channel = false
  }

  assert {
    condition     = alltrue([for pool in google_container_node_pool.tpu : !pool.management[0].auto_upgrade && length(pool.maintenance_policy) == 0])
    error_message = "Without a channel upgrades are simply off."
  }
}
