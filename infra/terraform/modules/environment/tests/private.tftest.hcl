# A private control plane, and what is refused about it.

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

run "without_a_setting_nothing_is_limited" {
  command = plan

  assert {
    condition     = length(google_container_cluster.this.master_authorized_networks_config) == 0
    error_message = "Without an address there is nothing to limit to ranges."
  }
  assert {
    condition     = length(google_container_cluster.this.database_encryption) == 0 && length(google_storage_bucket.artifacts.encryption) == 0 && google_container_node_pool.cpu.node_config[0].boot_disk_kms_key == null
    error_message = "Without a key of yours, Google's keys are used."
  }
}

run "only_the_private_address_answers" {
  variables {
    control_plane_access = "private"
    authorized_networks  = ["10.129.0.0/20", "10.200.0.0/16"]
  }

  assert {
    condition     = google_container_cluster.this.private_cluster_config[0].enable_private_endpoint && google_container_cluster.this.private_cluster_config[0].master_global_access_config[0].enabled
    error_message = "The control plane has a private address only, which functions of another region reach too."
  }
  assert {
    condition     = !google_container_cluster.this.control_plane_endpoints_config[0].dns_endpoint_config[0].allow_external_traffic && google_container_cluster.this.control_plane_endpoints_config[0].ip_endpoints_config[0].enabled
    error_message = "The DNS endpoint takes no traffic, the address does."
  }
  assert {
    condition     = toset(google_container_cluster.this.master_authorized_networks_config[0].cidr_blocks[*].cidr_block) == toset(["10.129.0.0/20", "10.200.0.0/16"]) && !google_container_cluster.this.master_authorized_networks_config[0].gcp_public_cidrs_access_enabled
    error_message = "Only the named ranges get through, and not every machine of Google Cloud."
  }
  assert {
    condition     = output.cluster.endpoint == "private" && endswith(output.credentials_command, " --internal-ip")
    error_message = "The functions and people are told to use the private address."
  }
}

run "ranges_limit_the_public_address_too" {
  variables {
    authorized_networks = ["203.0.113.7/32"]
  }

  assert {
    condition     = google_container_cluster.this.control_plane_endpoints_config[0].ip_endpoints_config[0].enabled && google_container_cluster.this.master_authorized_networks_config[0].cidr_blocks[*].cidr_block == tolist(["203.0.113.7/32"])
    error_message = "Ranges ask for an address, which these ranges alone may use."
  }
  assert {
    condition     = output.cluster.endpoint == "dns" && endswith(output.credentials_command, " --dns-endpoint")
    error_message = "The functions come by the DNS endpoint, which knows no ranges."
  }
}

run "an_access_that_is_none" {
  command = plan

  variables {
    control_plane_access = "public"
  }

  expect_failures = [var.control_plane_access]
}

run "a_private_address_without_addresses" {
  command = plan

  variables {
    control_plane_access = "private"
    enable_ip_endpoints  = false
  }

  expect_failures = [var.control_plane_access]
}

run "an_address_as_range" {
  command = plan

  variables {
    authorized_networks = ["203.0.113.7"]
  }

  expect_failures = [var.authorized_networks]
}

run "ranges_without_addresses" {
  command = plan

  variables {
    authorized_networks = ["203.0.113.7/32"]
    enable_ip_endpoints = false
  }

  expect_failures = [var.authorized_networks]
}

run "a_key_encrypts_everything_that_can_be" {
  variables {
    kms_key               = "projects/keys/locations/us-east5/keyRings/ring/cryptoKeys/training"
    create_tensorboard    = true
    tensorboard_region    = "us-east5"
    image_repository_name = "images"
    tpu_type              = "v5litepod-16"
    num_tpu_pools         = 1
  }

  assert {
    condition     = google_container_cluster.this.database_encryption[0].key_name == var.kms_key && google_container_cluster.this.database_encryption[0].state == "ENCRYPTED"
    error_message = "Secrets in the cluster are encrypted with the key."
  }
  assert {
    condition     = google_container_node_pool.cpu.node_config[0].boot_disk_kms_key == var.kms_key
    error_message = "The disks of nodes are too."
  }
  assert {
    condition     = google_storage_bucket.artifacts.encryption[0].default_kms_key_name == var.kms_key && google_artifact_registry_repository.images[0].kms_key_name == var.kms_key && google_vertex_ai_tensorboard.this[0].encryption_spec[0].kms_key_name == var.kms_key
    error_message = "So are checkpoints, images and the TensorBoard."
  }
}

run "the_network_of_a_host_project" {
  variables {
    network_project = "host-project"
    create_network  = false
    create_nat      = false
  }

  assert {
    condition     = google_container_cluster.this.network == "projects/host-project/global/networks/train-network" && google_container_cluster.this.subnetwork == "projects/host-project/regions/us-east5/subnetworks/train-subnet"
    error_message = "The cluster is in the host project's network."
  }
  assert {
    condition     = data.google_compute_subnetwork.existing[0].project == "host-project" && length(google_compute_router.this) == 0 && length(google_compute_network.this) == 0
    error_message = "Nothing is made in the host project."
  }
}

run "a_host_project_by_its_number" {
  command = plan

  variables {
    network_project = "123456789"
    create_network  = false
    create_nat      = false
  }

  expect_failures = [var.network_project]
}

run "a_network_to_be_made_in_a_host_project" {
  command = plan

  variables {
    network_project = "host-project"
  }

  expect_failures = [var.network_project]
}

run "a_key_of_another_region" {
  command = plan

  variables {
    kms_key = "projects/keys/locations/global/keyRings/ring/cryptoKeys/training"
  }

  expect_failures = [var.kms_key]
}

run "a_key_and_a_tensorboard_elsewhere" {
  command = plan

  variables {
    kms_key            = "projects/keys/locations/us-east5/keyRings/ring/cryptoKeys/training"
    create_tensorboard = true
  }

  expect_failures = [var.kms_key]
}
