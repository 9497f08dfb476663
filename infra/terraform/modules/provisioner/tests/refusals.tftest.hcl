# Every validation refuses something: one run for each, and one for each thing that a cluster must have.

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

run "a_project_by_its_number" {
  command = plan

  variables {
    project_id = "123456789"
  }

  expect_failures = [var.project_id]
}

run "a_zone_as_region" {
  command = plan

  variables {
    region = "us-east5-b"
  }

  expect_failures = [var.region]
}

run "a_name_too_long_for_an_account" {
  command = plan

  variables {
    name = "tpu-provisioner-of-team-blue"
  }

  expect_failures = [var.name]
}

run "no_cluster" {
  command = plan

  variables {
    clusters = {}
  }

  expect_failures = [var.clusters]
}

run "a_key_with_a_space" {
  command = plan

  variables {
    clusters = { "My cluster" = { name = "train", location = "us-east5" } }
  }

  expect_failures = [var.clusters]
}

run "a_cluster_by_its_full_name" {
  command = plan

  variables {
    clusters = { main = { name = "projects/p/locations/us-east5/clusters/train", location = "us-east5" } }
  }

  expect_failures = [var.clusters]
}

run "a_location_that_is_none" {
  command = plan

  variables {
    clusters = { main = { name = "train", location = "Columbus" } }
  }

  expect_failures = [var.clusters]
}

run "a_cluster_of_a_project_by_number" {
  command = plan

  variables {
    clusters = { main = { name = "train", location = "us-east5", project = "123456789" } }
  }

  expect_failures = [var.clusters]
}

run "a_zone_of_another_region" {
  command = plan

  variables {
    clusters = { main = { name = "train", location = "us-east5", zone = "us-east1-b" } }
  }

  expect_failures = [var.clusters]
}

run "an_archive_that_is_not_there" {
  command = plan

  variables {
    functions_archive = "tests/absent.zip"
  }

  expect_failures = [var.functions_archive]
}

run "no_account_for_nodes" {
  command = plan

  variables {
    node_service_accounts = []
  }

  expect_failures = [var.node_service_accounts]
}

run "the_default_account_for_nodes" {
  command = plan

  variables {
    node_service_accounts = ["123456789-compute@developer.gserviceaccount.com"]
  }

  expect_failures = [var.node_service_accounts]
}

run "an_account_that_the_provider_would_refuse_in_the_middle_of_an_apply" {
  command = plan

  variables {
    node_service_accounts = ["nodes@training-project.iam.gserviceaccount.com"]
  }

  expect_failures = [var.node_service_accounts]
}

run "a_setting_that_is_none" {
  command = plan

  variables {
    settings = { limit_chip = "8" }
  }

  expect_failures = [var.settings]
}

run "a_setting_that_terraform_makes" {
  command = plan

  variables {
    settings = { clusters = "{}" }
  }

  expect_failures = [var.settings]
}

run "a_replay_of_half_a_day" {
  command = plan

  variables {
    replay_days = 0.5
  }

  expect_failures = [var.replay_days]
}

run "a_channel_by_its_name" {
  command = plan

  variables {
    notification_channels = ["on-call"]
  }

  expect_failures = [var.notification_channels]
}

run "an_alert_before_a_creation_can_end" {
  command = plan

  variables {
    demand_wait_minutes = 4
  }

  expect_failures = [var.demand_wait_minutes]
}

run "a_runbook_nowhere" {
  command = plan

  variables {
    runbook_url = "wiki"
  }

  expect_failures = [var.runbook_url]
}

run "a_cluster_that_nobody_outside_can_reach" {
  command = plan

  override_data {
    target = data.google_container_cluster.served
    values = {
      control_plane_endpoints_config = [{ dns_endpoint_config = [{ allow_external_traffic = false, endpoint = "gke-0123.us-east5.gke.goog", enable_k8s_certs_via_dns = false, enable_k8s_tokens_via_dns = false }], ip_endpoints_config = [] }]
      workload_identity_config       = [{ workload_pool = "training-project.svc.id.goog" }]
      enable_autopilot               = false
    }
  }

  expect_failures = [data.google_container_cluster.served["main"]]
}

run "a_cluster_without_workload_identity" {
  command = plan

  override_data {
    target = data.google_container_cluster.served
    values = {
      control_plane_endpoints_config = [{ dns_endpoint_config = [{ allow_external_traffic = true, endpoint = "gke-0123.us-east5.gke.goog", enable_k8s_certs_via_dns = false, enable_k8s_tokens_via_dns = false }], ip_endpoints_config = [] }]
      workload_identity_config       = []
      enable_autopilot               = false
    }
  }

  expect_failures = [data.google_container_cluster.served["main"]]
}

run "an_autopilot_cluster" {
  command = plan

  override_data {
    target = data.google_container_cluster.served
    values = {
      control_plane_endpoints_config = [{ dns_endpoint_config = [{ allow_external_traffic = true, endpoint = "gke-0123.us-east5.gke.goog", enable_k8s_certs_via_dns = false, enable_k8s_tokens_via_dns = false }], ip_endpoints_config = [] }]
      workload_identity_config       = [{ workload_pool = "training-project.svc.id.goog" }]
      enable_autopilot               = true
    }
  }

  expect_failures = [data.google_container_cluster.served["main"]]
}

run "two_keys_of_one_cluster" {
  command = plan

  variables {
    clusters = {
      main  = { name = "train", location = "us-east5", zone = "us-east5-b" }
      again = { name = "train", location = "us-east5", project = "training-project" }
    }
  }

  expect_failures = [var.clusters]
}

run "two_addresses_in_one" {
  command = plan

  variables {
    alert_email = "a@example.com,b@example.com"
  }

  expect_failures = [var.alert_email]
}

run "less_than_no_idle_chips" {
  command = plan

  variables {
    idle_chips_max = -1
  }

  expect_failures = [var.idle_chips_max]
}

run "a_bucket_as_an_address" {
  command = plan

  variables {
    dead_letter_bucket = "gs://letters"
  }

  expect_failures = [var.dead_letter_bucket]
}

run "a_billing_account_by_its_name" {
  command = plan

  variables {
    budget = { billing_account = "billingAccounts/012345-6789AB-CDEF01", amount = 100 }
  }

  expect_failures = [var.budget]
}

run "a_budget_of_nothing" {
  command = plan

  variables {
    budget = { billing_account = "012345-6789AB-CDEF01", amount = 0 }
  }

  expect_failures = [var.budget]
}
