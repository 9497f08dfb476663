# Functions in a network, and what is refused about them.

mock_provider "google" {
  source = "./tests/mocks"
}

variables {
  project_id            = "training-project"
  region                = "us-east5"
  functions_archive     = "tests/stand-in.zip"
  node_service_accounts = ["tpu-nodes@training-project.iam.gserviceaccount.com"]
  clusters = {
    main = { name = "train", location = "us-east5", zone = "us-east5-b" }
  }
}

run "without_a_network_nothing_is_private" {
  command = plan

  assert {
    condition     = google_pubsub_topic.workload_events.kms_key_name == null && length(google_storage_bucket.source.encryption) == 0
    error_message = "Without a key of yours, Google's keys are used."
  }
  assert {
    condition     = length(data.google_compute_subnetwork.functions) == 0 && alltrue([for each in local.deployed : length(each.service_config[0].direct_vpc_network_interface) == 0 && each.build_config[0].worker_pool == null])
    error_message = "A deployment that asks for nothing private has nothing of it."
  }
}

run "functions_in_a_host_projects_subnet_reach_a_private_endpoint" {
  variables {
    functions_egress      = "private-ranges-only"
    functions_subnet      = "projects/host-project/regions/us-east5/subnetworks/functions"
    build_worker_pool     = "projects/build-project/locations/us-east5/workerPools/private"
    require_private_nodes = true
    clusters = {
      main = { name = "train", location = "us-east5", zone = "us-east5-b", endpoint = "private" }
    }
  }

  assert {
    condition     = alltrue([for each in local.deployed : each.service_config[0].direct_vpc_egress == "VPC_EGRESS_PRIVATE_RANGES_ONLY"])
    error_message = "Every function sends internal traffic through the network."
  }
  assert {
    condition     = alltrue([for each in local.deployed : each.service_config[0].direct_vpc_network_interface[0].subnetwork == "projects/host-project/regions/us-east5/subnetworks/functions" && each.service_config[0].direct_vpc_network_interface[0].network == "projects/training-project/global/networks/train-network"])
    error_message = "The network is that of the subnet; both are named in full."
  }
  assert {
    condition     = alltrue([for each in local.deployed : each.build_config[0].worker_pool == "projects/build-project/locations/us-east5/workerPools/private"])
    error_message = "The images are built in the private pool."
  }
  assert {
    condition     = jsondecode(local.deployed["collect"].service_config[0].environment_variables["TPU_PROVISIONER_CLUSTERS"]) == { "projects/training-project/locations/us-east5/clusters/train" = { private = true, zone = "us-east5-b" } }
    error_message = "The functions know the private address and its authority."
  }
  assert {
    condition     = output.clusters["main"].private
    error_message = "The build knows them too."
  }
}

run "all_traffic_through_the_clusters_own_subnet" {
  variables {
    functions_egress = "all"
  }

  assert {
    condition     = local.deployed["collect"].service_config[0].direct_vpc_egress == "VPC_EGRESS_ALL_TRAFFIC" && local.deployed["collect"].service_config[0].direct_vpc_network_interface[0].subnetwork == "projects/training-project/regions/us-east5/subnetworks/train-subnet"
    error_message = "No subnet named: that of the cluster in the functions' region."
  }
  assert {
    condition     = !output.clusters["main"].private
    error_message = "The DNS endpoint is reached through the network as well."
  }
}

run "a_key_encrypts_functions_and_topics" {
  variables {
    services_kms_key = "projects/keys/locations/us-east5/keyRings/ring/cryptoKeys/training"
  }

  assert {
    condition     = alltrue([for each in local.deployed : each.kms_key_name == var.services_kms_key]) && google_storage_bucket.source.encryption[0].default_kms_key_name == var.services_kms_key
    error_message = "Functions, their images and their source have the same key."
  }
  assert {
    condition     = google_pubsub_topic.workload_events.kms_key_name == var.services_kms_key && google_pubsub_topic.dead_letters.kms_key_name == var.services_kms_key && google_pubsub_topic.nodepool_events.kms_key_name == var.services_kms_key
    error_message = "Every topic has it."
  }
}

run "a_key_of_another_region" {
  command = plan

  variables {
    services_kms_key = "projects/keys/locations/us-central1/keyRings/ring/cryptoKeys/training"
  }

  expect_failures = [var.services_kms_key]
}

run "functions_that_move_leave_the_bucket_of_their_source_where_it_is" {
  variables {
    region = "us-central1"
  }

  assert {
    condition     = lower(google_storage_bucket.source.location) == "us-east5" && local.deployed["collect"].location == "us-central1"
    error_message = "A new bucket would need the name of the old one."
  }
}

run "a_key_that_the_bucket_of_the_source_cannot_have" {
  command = plan

  variables {
    region           = "us-central1"
    services_kms_key = "projects/keys/locations/us-central1/keyRings/ring/cryptoKeys/training"
  }

  expect_failures = [google_storage_bucket.source]
}

run "an_egress_that_is_none" {
  command = plan

  variables {
    functions_egress = "vpc"
  }

  expect_failures = [var.functions_egress]
}

run "no_cluster_in_the_functions_region_and_no_subnet" {
  command = plan

  variables {
    region           = "us-central1"
    functions_egress = "all"
  }

  expect_failures = [var.functions_egress]
}

run "a_subnet_of_another_region" {
  command = plan

  variables {
    functions_egress = "all"
    functions_subnet = "projects/host-project/regions/us-central1/subnetworks/functions"
  }

  expect_failures = [var.functions_subnet]
}

run "a_subnet_that_nothing_uses" {
  command = plan

  variables {
    functions_subnet = "projects/host-project/regions/us-east5/subnetworks/functions"
  }

  expect_failures = [var.functions_egress]
}

run "a_worker_pool_of_another_region" {
  command = plan

  variables {
    build_worker_pool = "projects/build-project/locations/us-central1/workerPools/private"
  }

  expect_failures = [var.build_worker_pool]
}

run "an_endpoint_that_is_none" {
  command = plan

  variables {
    clusters = { main = { name = "train", location = "us-east5", endpoint = "public" } }
  }

  expect_failures = [var.clusters]
}

run "a_private_endpoint_that_no_function_reaches" {
  command = plan

  variables {
    clusters = { main = { name = "train", location = "us-east5", endpoint = "private" } }
  }

  expect_failures = [var.functions_egress]
}

run "a_subnet_without_private_google_access" {
  command = plan

  variables {
    functions_egress = "all"
  }

  override_data {
    target = data.google_compute_subnetwork.functions
    values = { private_ip_google_access = false, ip_cidr_range = "10.129.0.0/20", network = "projects/training-project/global/networks/train-network" }
  }

  expect_failures = [data.google_compute_subnetwork.functions]
}

run "a_subnet_that_is_too_small" {
  command = plan

  variables {
    functions_egress = "private-ranges-only"
  }

  override_data {
    target = data.google_compute_subnetwork.functions
    values = { private_ip_google_access = false, ip_cidr_range = "10.129.0.0/28", network = "projects/training-project/global/networks/train-network" }
  }

  expect_failures = [data.google_compute_subnetwork.functions]
}

run "a_cluster_whose_nodes_are_public" {
  command = plan

  variables {
    require_private_nodes = true
  }

  override_data {
    target = data.google_container_cluster.served
    values = {
      control_plane_endpoints_config = [{ dns_endpoint_config = [{ allow_external_traffic = true, endpoint = "gke-0123.us-east5.gke.goog", enable_k8s_certs_via_dns = false, enable_k8s_tokens_via_dns = false }], ip_endpoints_config = [] }]
      workload_identity_config       = [{ workload_pool = "training-project.svc.id.goog" }]
      enable_autopilot               = false
      private_cluster_config         = []
    }
  }

  expect_failures = [data.google_container_cluster.served["main"]]
}

run "a_cluster_without_a_private_address" {
  command = plan

  variables {
    functions_egress = "all"
    functions_subnet = "projects/host-project/regions/us-east5/subnetworks/functions"
    clusters         = { main = { name = "train", location = "us-east5", endpoint = "private" } }
  }

  override_data {
    target = data.google_container_cluster.served
    values = {
      control_plane_endpoints_config = []
      workload_identity_config       = [{ workload_pool = "training-project.svc.id.goog" }]
      enable_autopilot               = false
      private_cluster_config         = []
    }
  }

  expect_failures = [data.google_container_cluster.served["main"]]
}
