# What a plan holds, without Google Cloud: the provider's schema is real, its answers are made up.

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

run "one_cluster" {
  assert {
    condition     = google_pubsub_topic.workload_events.name == "tpu-provisioner-workload-events" && google_pubsub_topic.workload_events.message_retention_duration == "604800s"
    error_message = "Events must be kept for a week, to be replayed by time."
  }

  assert {
    condition     = google_pubsub_subscription.push["provision"].push_config[0].push_endpoint == google_pubsub_subscription.push["provision"].push_config[0].oidc_token[0].audience
    error_message = "The audience must be the service's own address."
  }

  assert {
    condition     = alltrue([for each in google_cloud_run_v2_service_iam_binding.invokers : each.members == toset(["serviceAccount:tpu-provisioner-push@training-project.iam.gserviceaccount.com", "serviceAccount:tpu-provisioner-scheduler@training-project.iam.gserviceaccount.com"])])
    error_message = "Only Pub/Sub and the scheduler may call the functions."
  }

  assert {
    condition     = alltrue([for each in local.deployed : each.service_config[0].environment_variables["THREADS"] == tostring(each.service_config[0].max_instance_request_concurrency) && each.service_config[0].environment_variables["WORKERS"] == "1"])
    error_message = "An instance must be one process, with as many threads as it is given requests."
  }

  assert {
    condition     = alltrue([for each in local.deployed : each.service_config[0].max_instance_count == 1 && each.service_config[0].min_instance_count == 1 && each.service_config[0].timeout_seconds == 60])
    error_message = "What is counted in one process needs one instance."
  }

  assert {
    condition     = { for key, each in local.deployed : key => each.build_config[0].entry_point } == { collect = "collect", provision = "provision" } && google_cloudfunctions2_function.provision.service_config[0].environment_variables == google_cloudfunctions2_function.collect.service_config[0].environment_variables
    error_message = "Both functions must have the same settings, for both make the same plan."
  }

  assert {
    condition     = { for key, each in google_cloud_scheduler_job.ticks : key => each.attempt_deadline } == { "main/collect" = "60s", "main/provision" = "60s" } && alltrue([for key, each in google_cloud_scheduler_job.ticks : each.http_target[0].uri == "${each.http_target[0].oidc_token[0].audience}/tick?cluster=projects/training-project/locations/us-east5/clusters/train"])
    error_message = "Each minute both functions must look at the cluster."
  }

  assert {
    condition     = jsondecode(local.deployed["collect"].service_config[0].environment_variables["TPU_PROVISIONER_CLUSTERS"]) == { "projects/training-project/locations/us-east5/clusters/train" = { private = false, zone = "us-east5-b" } }
    error_message = "The functions must know the cluster by its full name, and read from GKE where its API is."
  }

  assert {
    condition     = google_pubsub_topic_iam_member.exporter["training-project"].member == "principal://iam.googleapis.com/projects/123456789/locations/global/workloadIdentityPools/training-project.svc.id.goog/subject/ns/tpu-provisioner/sa/tpu-provisioner-exporter"
    error_message = "The exporter publishes as its Kubernetes account itself."
  }

  assert {
    condition     = strcontains(google_logging_project_sink.operations["training-project"].filter, "operation.last=true") && strcontains(google_logging_project_sink.operations["training-project"].filter, "(resource.labels.cluster_name=\"train\" AND resource.labels.location=\"us-east5\")")
    error_message = "The sink takes the ends of operations of the served clusters only."
  }

  assert {
    condition     = length(jsondecode(google_monitoring_dashboard.this.dashboard_json).mosaicLayout.tiles) == length(local.charts)
    error_message = "The dashboard must be JSON with a tile for each chart."
  }

  assert {
    condition     = { for key, each in google_pubsub_subscription.ends : key => [each.name, length(each.dead_letter_policy), each.ack_deadline_seconds] } == { collect = ["tpu-provisioner-collect-ends", 0, 60], provision = ["tpu-provisioner-provision-ends", 0, 60] } && alltrue([for each in google_pubsub_subscription.push : each.dead_letter_policy[0].max_delivery_attempts == 20])
    error_message = "The ends of operations reach both functions and leave no dead letters; messages do."
  }

  assert {
    condition     = length(output.replay_commands) == 2 && strcontains(output.replay_commands[0], "gcloud pubsub subscriptions seek tpu-provisioner-")
    error_message = "The messages of both functions can be replayed."
  }

  assert {
    condition     = length(google_pubsub_subscription.dead_letter_archive) == 0 && length(google_billing_budget.this) == 0
    error_message = "An archive and a budget are made only if they are asked for."
  }

  assert {
    condition     = length(google_monitoring_notification_channel.email) == 0 && alltrue([for each in google_monitoring_alert_policy.this : length(each.notification_channels) == 0 && length(each.documentation[0].links) == 0])
    error_message = "Nothing that is not named may be notified or linked."
  }

  assert {
    condition     = { for speed in ["fast", "slow"] : speed => [for each in google_monitoring_alert_policy.this["errors_burn_${speed}"].conditions : [each.display_name, each.condition_threshold[0].threshold_value]] } == { fast = [["errors use up the month's budget, fast: 1h", 14.4], ["errors use up the month's budget, fast: 5m", 14.4]], slow = [["errors use up the month's budget, slow: 6h", 6], ["errors use up the month's budget, slow: 30m", 6]] }
    error_message = "A burn is looked for over two times at two rates."
  }

  assert {
    condition     = google_monitoring_slo.answers.goal == 0.99 && google_monitoring_slo.answers.service == google_monitoring_custom_service.functions.service_id && google_monitoring_slo.answers.request_based_sli[0].good_total_ratio[0].good_service_filter == "${google_monitoring_slo.answers.request_based_sli[0].good_total_ratio[0].total_service_filter} AND metric.label.\"response_code_class\"!=\"5xx\" AND metric.label.\"response_code\"!=\"429\"" && strcontains(google_monitoring_slo.answers.request_based_sli[0].good_total_ratio[0].total_service_filter, "full_match(\"tpu-provisioner-collect|tpu-provisioner-provision\")")
    error_message = "The objective counts the calls of this deployment's functions, and those that end without 5xx or 429."
  }

  assert {
    condition     = strcontains(google_monitoring_alert_policy.this["creations_fail"].conditions[0].condition_prometheus_query_language[0].query, "|pool_failed|")
    error_message = "A failed creation raises an alert."
  }
}

run "several_clusters_and_projects" {
  variables {
    clusters = {
      main  = { name = "train", location = "us-east5", zone = "us-east5-b" }
      small = { name = "try", location = "us-east5-b" }
      other = { name = "train", location = "europe-west4", project = "other-project" }
    }
  }

  override_data {
    target = data.google_container_cluster.served["other"]
    values = {
      control_plane_endpoints_config = [{ dns_endpoint_config = [{ allow_external_traffic = true, endpoint = "gke-9876.europe-west4.gke.goog", enable_k8s_certs_via_dns = false, enable_k8s_tokens_via_dns = false }], ip_endpoints_config = [] }]
      workload_identity_config       = [{ workload_pool = "other-project.svc.id.goog" }]
      enable_autopilot               = false
    }
  }

  assert {
    condition     = keys(google_pubsub_topic_iam_member.exporter) == ["other-project", "training-project"]
    error_message = "One grant for each project: clusters of a project share their principals."
  }

  assert {
    condition     = !strcontains(google_logging_project_sink.operations["other-project"].filter, "us-east5")
    error_message = "A project's sink must name its own clusters only."
  }

  assert {
    condition     = { for key, each in google_logging_project_sink.operations : key => each.name } == { other-project = "tpu-provisioner-training-project-node-pool-operations", training-project = "tpu-provisioner-node-pool-operations" }
    error_message = "Another project's sink says whose it is: a deployment of the same name elsewhere may serve clusters there."
  }

  assert {
    condition     = length([for key in keys(google_monitoring_alert_policy.this) : key if startswith(key, "exporter_")]) == 6
    error_message = "Every cluster's exporter has its own two alerts."
  }

  assert {
    condition = alltrue([
      for reason in ["limit_passed", "deletions_over_cap", "cluster_unproven"] : strcontains(
        google_monitoring_alert_policy.this[reason].conditions[0].condition_prometheus_query_language[0].query,
        "reason=\"${reason}\""
      )
    ])
    error_message = "What a person must look at raises an alert with its reason."
  }

  assert {
    condition = alltrue([
      for key, each in google_logging_metric.figures :
      each.value_extractor == "EXTRACT(jsonPayload.${key})" && each.label_extractors == tomap({ cluster = "EXTRACT(jsonPayload.cluster)" })
      && endswith(each.filter, "jsonPayload.${key}:*")
    ])
    error_message = "Every cluster has its own figures, each from the field of its name."
  }

  assert {
    condition     = endswith(google_monitoring_alert_policy.this["demands_wait"].conditions[0].condition_prometheus_query_language[0].query, " > 1800") && endswith(google_monitoring_alert_policy.this["demands_wait"].documentation[0].content, "#alert-demands-wait-without-capacity")
    error_message = "A demand that waits for half an hour raises an alert, which links to its heading."
  }

  assert {
    condition     = endswith(google_monitoring_alert_policy.this["autoscaled_pools"].conditions[0].condition_prometheus_query_language[0].query, " > 149.5") && endswith(google_monitoring_alert_policy.this["autoscaled_pools"].documentation[0].content, "#alert-many-autoscaled-node-pools")
    error_message = "150 autoscaled pools raise an alert, which links to its heading."
  }

  assert {
    condition     = endswith(google_monitoring_alert_policy.this["tick_absent"].conditions[0].condition_prometheus_query_language[0].query, " < 6") && length(google_cloud_scheduler_job.ticks) == 6
    error_message = "Each of three clusters has a tick of each function, and one that is missing raises an alert."
  }

  assert {
    condition     = keys(google_monitoring_monitored_project.of_clusters) == ["other-project"]
    error_message = "Alerts must see the metrics of clusters in other projects; those at home they see anyway."
  }
}

run "another_name" {
  variables {
    name                = "blue"
    demand_wait_minutes = 90
    settings            = { grace_seconds = "600", limit_chips = "256", resource_labels = "{\"cost\": \"42\"}" }
    alert_email         = "team@example.com"
    idle_chips_max      = 16
    dead_letter_bucket  = "letters"
    budget              = { billing_account = "012345-6789AB-CDEF01", amount = 5000 }
    runbook_url         = "https://wiki.example.com/runbook.md"
  }

  assert {
    condition     = google_pubsub_subscription.dead_letter_archive[0].topic == google_pubsub_topic.dead_letters.id && google_pubsub_subscription.dead_letter_archive[0].cloud_storage_config[0].bucket == "letters" && google_pubsub_subscription.dead_letter_archive[0].cloud_storage_config[0].avro_config[0].write_metadata
    error_message = "The bucket must get dead letters with their attributes."
  }

  assert {
    condition     = google_billing_budget.this[0].budget_filter[0].projects == toset(["projects/123456789"]) && google_billing_budget.this[0].amount[0].specified_amount[0].units == "5000" && google_billing_budget.this[0].all_updates_rule[0].monitoring_notification_channels == tolist([google_monitoring_notification_channel.email[0].name])
    error_message = "The budget must count the clusters' projects, and tell the same people as the alerts."
  }

  assert {
    condition     = alltrue([for each in google_cloud_scheduler_job.ticks : each.paused == false])
    error_message = "A build must resume the ticks that a destroy build has paused, if that stopped half-way."
  }

  assert {
    condition     = google_monitoring_notification_channel.email[0].labels["email_address"] == "team@example.com" && alltrue([for each in google_monitoring_alert_policy.this : each.notification_channels == tolist([google_monitoring_notification_channel.email[0].name])])
    error_message = "Every alert must reach the address."
  }

  assert {
    condition     = alltrue([for key, each in google_monitoring_alert_policy.this : each.documentation[0].links[0].url == "https://wiki.example.com/runbook.md#${local.alerts[key].heading}"])
    error_message = "Every alert must have an absolute link to its heading."
  }

  assert {
    condition     = endswith(google_monitoring_alert_policy.this["idle_chips"].conditions[0].condition_prometheus_query_language[0].query, " > 16")
    error_message = "The alert about idle chips must have the set number."
  }

  assert {
    condition     = strcontains(google_monitoring_alert_policy.this["autoscaled_pools"].conditions[0].condition_prometheus_query_language[0].query, "user_blue_autoscaled_pools_sum{")
    error_message = "The alert about autoscaled pools must read this deployment's figure."
  }

  assert {
    condition     = strcontains(google_monitoring_alert_policy.this["demands_wait"].conditions[0].condition_prometheus_query_language[0].query, "user_blue_oldest_wait_seconds_sum{") && endswith(google_monitoring_alert_policy.this["demands_wait"].conditions[0].condition_prometheus_query_language[0].query, " > 5400")
    error_message = "The alert about demands must read this deployment's figure, and have the wished minutes in seconds."
  }

  assert {
    condition     = startswith(local.emails.provision, "blue-provision@") && google_logging_metric.decisions.name == "blue/decisions"
    error_message = "Everything carries the name."
  }

  assert {
    condition     = google_cloudfunctions2_function.collect.service_config[0].environment_variables["TPU_PROVISIONER_GRACE_SECONDS"] == "600"
    error_message = "Settings reach the functions."
  }

  assert {
    condition     = jsondecode(google_cloudfunctions2_function.provision.service_config[0].environment_variables["TPU_PROVISIONER_RESOURCE_LABELS"]) == { cost = "42", tpu-provisioner-deployment = "training-project_blue" }
    error_message = "The machines of a pool name the deployment, beside the operator's labels."
  }
}
