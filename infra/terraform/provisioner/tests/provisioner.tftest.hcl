# The root passes everything on: its plan is the module's.

mock_provider "google" {
  source = "../modules/provisioner/tests/mocks"
}

variables {
  project_id            = "training-project"
  region                = "us-east5"
  functions_archive     = "../modules/provisioner/tests/stand-in.zip"
  node_service_accounts = ["tpu-nodes@training-project.iam.gserviceaccount.com"]
  clusters = {
    main = { name = "train", location = "us-east5", zone = "us-east5-b" }
  }
}

run "what_the_next_step_needs" {
  assert {
    condition     = toset(keys(output.function_uris)) == toset(["provision", "collect"])
    error_message = "Every function has an address."
  }

  assert {
    condition     = output.helm_values["main"].cluster == "projects/training-project/locations/us-east5/clusters/train"
    error_message = "The exporter is told which cluster it watches."
  }

  assert {
    condition     = output.helm_values["main"].environment == {} && !output.helm_values["main"].kueue
    error_message = "The exporter watches nothing of Kueue unless a setting says so."
  }

  assert {
    condition     = length(output.rbac_users) == 2
    error_message = "Two accounts need rights in the cluster."
  }
}

run "the_exporter_watches_kueue_where_the_functions_answer_it" {
  variables {
    settings = { kueue_admission_check = "true" }
  }

  assert {
    condition     = output.helm_values["main"].environment.TPU_PROVISIONER_KUEUE_ADMISSION_CHECK == "true" && output.helm_values["main"].kueue
    error_message = "The setting reaches the exporter."
  }
}

run "every_variable_reaches_the_module" {
  variables {
    name                  = "blue"
    functions_runtime     = "python312"
    settings              = { grace_seconds = "600" }
    exporter_namespace    = "tpu-blue"
    exporter_account      = "exporter"
    replay_days           = 3
    operation_events      = false
    notification_channels = ["projects/training-project/notificationChannels/1"]
    demand_wait_minutes   = 45
    runbook_url           = "https://example.com/runbook"
  }

  assert {
    condition     = output.topics.nodepool_events == null && strcontains(output.replay_commands[0], "seek blue-") && endswith(output.exporter_principals["training-project"], "/subject/ns/tpu-blue/sa/exporter")
    error_message = "The name, the sink's switch and the exporter's account must arrive."
  }
}
