# Both modules together: what one makes, the other serves.

mock_provider "google" {
  source = "../modules/provisioner/tests/mocks"

  mock_resource "google_container_cluster" {
    defaults = {
      id = "projects/training-project/locations/us-east5/clusters/train"
    }
  }

  mock_resource "google_service_account" {
    defaults = {
      id     = "projects/training-project/serviceAccounts/an-account@training-project.iam.gserviceaccount.com"
      name   = "projects/training-project/serviceAccounts/an-account@training-project.iam.gserviceaccount.com"
      email  = "an-account@training-project.iam.gserviceaccount.com"
      member = "serviceAccount:an-account@training-project.iam.gserviceaccount.com"
    }
  }
}

variables {
  project_id                      = "training-project"
  region                          = "us-east5"
  zone                            = "us-east5-b"
  cluster_name                    = "train"
  network_name                    = "train-network"
  subnet_name                     = "train-subnet"
  artifact_repository_bucket_name = "training-project-artifacts"
  functions_archive               = "../modules/provisioner/tests/stand-in.zip"
}

run "the_provisioner_serves_the_cluster_just_made" {
  assert {
    condition     = keys(output.clusters) == ["environment"] && output.clusters["environment"].path == output.cluster_id
    error_message = "The provisioner must serve this cluster."
  }
  assert {
    condition     = output.helm_values["environment"].topic == output.topics.workload_events
    error_message = "The exporter is told where to publish."
  }
  assert {
    condition     = toset(keys(output.function_uris)) == toset(["provision", "collect"]) && length(output.rbac_users) == 2
    error_message = "The next step needs the functions and their accounts."
  }
  assert {
    condition     = length(output.tpu_pools) == 0
    error_message = "No TPU is paid for before somebody asks for one."
  }
}

run "and_others_by_name" {
  variables {
    clusters              = { second = { name = "other", location = "us-west4", project = "other-project" } }
    node_service_accounts = ["other-nodes@training-project.iam.gserviceaccount.com"]
  }

  override_data {
    target = module.provisioner.data.google_container_cluster.served["second"]
    values = {
      control_plane_endpoints_config = [{
        dns_endpoint_config = [{ allow_external_traffic = true, endpoint = "gke-4567.us-west4.gke.goog", enable_k8s_certs_via_dns = false, enable_k8s_tokens_via_dns = false }]
        ip_endpoints_config = []
      }]
      workload_identity_config = [{ workload_pool = "other-project.svc.id.goog" }]
    }
  }

  assert {
    condition     = output.clusters["second"].path == "projects/other-project/locations/us-west4/clusters/other" && output.clusters["environment"].path == output.cluster_id
    error_message = "Both clusters are served."
  }
}

run "every_setting_reaches_its_module" {
  variables {
    name                       = "blue"
    exporter_namespace         = "tpu-blue"
    exporter_account           = "exporter"
    operation_events           = false
    tpu_namespace              = "training"
    tpu_sa_name                = "trainer"
    tpu_type                   = "tpu7x-128"
    num_tpu_pools              = 2
    workload_policy_prefix     = "blue-"
    workload_policy_topologies = ["2x2x2"]
    create_tensorboard         = true
    more_namespaces            = ["research"]
    image_repository_name      = "training"
  }

  assert {
    condition     = output.topics.nodepool_events == null && strcontains(output.replay_commands[0], "seek blue-") && endswith(output.exporter_principals["training-project"], "/subject/ns/tpu-blue/sa/exporter")
    error_message = "The provisioner's settings must arrive."
  }
  assert {
    condition     = endswith(output.workload.principal, "/subject/ns/training/sa/trainer") && output.tensorboard != "" && output.workload.more_namespaces == tolist(["research"]) && endswith(output.image_repository, "/training-project/training") && keys(output.tpu_pools) == ["tpu-node-pool-0", "tpu-node-pool-1"]
    error_message = "The environment's settings must arrive."
  }
  assert {
    condition     = output.workload_policies == { "2x2x2" = "blue-2x2x2", "4x4x4" = "blue-4x4x4" } && output.workload_policy_prefix == "blue-"
    error_message = "Both modules mean the same workload policies."
  }
}

run "images_of_users_among_those_of_this_deployment" {
  command = plan

  variables {
    image_repository_name = "tpu-provisioner-images"
  }

  expect_failures = [var.image_repository_name]
}

run "a_workload_policy_prefix_for_one_module_only" {
  command = plan

  variables {
    settings = { workload_policy_prefix = "mine-" }
  }

  expect_failures = [var.settings]
}

run "another_cluster_under_the_key_of_this_one" {
  command = plan

  variables {
    clusters = { environment = { name = "other", location = "us-west4" } }
  }

  expect_failures = [var.clusters]
}

run "a_private_environment_is_served_by_its_private_address" {
  variables {
    control_plane_access = "private"
    functions_egress     = "private-ranges-only"
    authorized_networks  = ["10.129.0.0/20"]
  }

  assert {
    condition     = output.clusters["environment"].private && endswith(output.credentials_command, "--internal-ip")
    error_message = "Functions, build and people use the private address."
  }
}
