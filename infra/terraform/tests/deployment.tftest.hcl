# The whole deployment: what the file and the substitutions say reaches the modules, and what one makes the other serves.

mock_provider "google" {
  source = "./modules/provisioner/tests/mocks"

  mock_resource "google_container_cluster" {
    defaults = {
      id = "projects/training-project/locations/us-east5/clusters/train"
    }
  }
}

override_module {
  target  = module.functions
  outputs = { path = "modules/provisioner/tests/stand-in.zip" }
}

variables {
  project_id      = "training-project"
  services_region = "us-east5"
  environment     = { zone = "us-east5-b", cluster_name = "train" }
}

run "the_provisioner_serves_the_cluster_just_made" {
  assert {
    condition     = keys(output.clusters) == ["environment"] && output.clusters["environment"].path == output.environment.cluster
    error_message = "The provisioner must serve this cluster."
  }
  assert {
    condition     = output.helm_values["environment"].topic == output.topics.workload_events && output.helm_values["environment"].cluster == output.environment.cluster
    error_message = "The exporter is told what it watches and where to publish."
  }
  assert {
    condition     = toset(keys(output.function_uris)) == toset(["provision", "collect"]) && length(output.scheduler_jobs) == 2
    error_message = "Two functions, each with its tick."
  }
  assert {
    condition     = length(output.environment.tpu_pools) == 0 && terraform_data.deployment.input.limit_chips == 256
    error_message = "No TPU is paid for before somebody asks for one, and there is a limit."
  }
  assert {
    condition     = output.helm_values["environment"].queue.quotas == [{ flavor = "v4-16", chips = 8 }] && output.queueing.jobset == "v0.11.1"
    error_message = "The queue has a slice of the default type, and JobSet's first known version is installed."
  }
}

run "the_substitutions_of_the_public_environment_still_work" {
  variables {
    environment = null
    substitutions = {
      REGION                          = "us-east5", ZONE = "us-east5-b", CLUSTER_NAME = "train", NETWORK_NAME = "net", SUBNET_NAME = "sub", NAMESPACE = "jobs"
      ARTIFACT_REPOSITORY_BUCKET_NAME = "old-bucket", TPU_TYPE = "v5litepod-16", NUM_TPU_POOLS = "1", NUM_OF_CHIPS = "512"
      TENSORBOARD_REGION              = "us-central1", JOBSET_API_VERSION = "v0.12.0", KUEUE_API_VERSION = ""
    }
  }

  assert {
    condition     = output.helm_values["environment"].queue.quotas == [{ flavor = "v5litepod-16", chips = 512 }] && terraform_data.deployment.input.limit_chips == 512
    error_message = "The quota is what was asked for, and the limit leaves room for it."
  }
  assert {
    condition     = keys(output.environment.tpu_pools) == ["tpu-node-pool-0"] && output.environment.workload.namespaces == ["jobs"] && output.queueing.jobset == "v0.12.0"
    error_message = "Each substitution reaches its place."
  }
}

run "a_substitution_is_stronger_than_the_file" {
  command = plan

  variables {
    environment   = { zone = "us-east5-b", cluster_name = "train", tpu_namespace = "one", more_namespaces = ["two"], quotas = { v6e-16 = 64 } }
    substitutions = { NAMESPACE = "three" }
    limit_chips   = 16
  }

  assert {
    condition     = output.environment.workload.namespaces == ["three", "two"] && terraform_data.deployment.input.limit_chips == 16
    error_message = "What a build is given counts more than its file, and leaves the rest of it."
  }
}

run "clusters_that_exist_are_served_without_an_environment" {
  variables {
    environment           = null
    clusters              = { main = { name = "other", location = "us-east5", zone = "us-east5-b" } }
    node_service_accounts = ["other-nodes@training-project.iam.gserviceaccount.com"]
    settings              = { kueue_admission_check = "true" }
    provisioner           = { replay_days = 3 }
  }

  assert {
    condition     = output.environment == null && output.clusters["main"].path == "projects/training-project/locations/us-east5/clusters/other" && output.queueing == { jobset = "none", kueue = "none" }
    error_message = "Nothing is made but the provisioner."
  }
  assert {
    condition     = output.helm_values["main"].kueue && output.helm_values["main"].environment.TPU_PROVISIONER_KUEUE_ADMISSION_CHECK == "true"
    error_message = "The settings reach the chart and the module."
  }
}

run "a_private_environment_is_served_by_its_private_address" {
  variables {
    environment = { zone = "us-east5-b", cluster_name = "train", control_plane_access = "private", authorized_networks = ["10.129.0.0/20"] }
    provisioner = { functions_egress = "private-ranges-only" }
  }

  assert {
    condition     = output.clusters["environment"].private && endswith(output.environment.credentials_command, "--internal-ip")
    error_message = "Functions, build and people use the private address."
  }
}

run "a_misspelt_name_in_the_environment" {
  command = plan

  variables {
    environment = { zone = "us-east5-b", cluster_name = "train", tpu_typ = "v4-8" }
  }

  expect_failures = [var.environment]
}

run "a_misspelt_name_of_the_provisioner" {
  command = plan

  variables {
    provisioner = { replay = 3 }
  }

  expect_failures = [var.provisioner]
}

run "neither_environment_nor_cluster" {
  command = plan

  variables {
    environment = null
  }

  expect_failures = [var.clusters]
}

run "an_unknown_version_of_kueue" {
  command = plan

  variables {
    kueue_version = "v9.9.9"
  }

  expect_failures = [output.queueing]
}
