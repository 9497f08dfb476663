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
    condition     = google_cloud_run_v2_service_iam_binding.invokers["sweep"].members == toset([google_service_account.this["scheduler"].member]) && google_cloud_run_v2_service_iam_binding.invokers["provision"].members == toset([google_service_account.this["push"].member])
    error_message = "Only the scheduler may call the sweep, and only Pub/Sub the others."
  }

  assert {
    condition     = alltrue([for each in google_cloudfunctions2_function.this : each.service_config[0].environment_variables["THREADS"] == tostring(each.service_config[0].max_instance_request_concurrency)])
    error_message = "An instance must have as many threads as it is given requests."
  }

  assert {
    condition     = jsondecode(google_cloudfunctions2_function.this["sweep"].service_config[0].environment_variables["TPU_PROVISIONER_CLUSTERS"]) == { "projects/training-project/locations/us-east5/clusters/train" = { endpoint = "https://gke-0123.us-east5.gke.goog", zone = "us-east5-b" } }
    error_message = "The functions must know the cluster by its full name, at its DNS endpoint."
  }

  assert {
    condition     = google_pubsub_topic_iam_member.exporter["training-project"].member == "principal://iam.googleapis.com/projects/123456789/locations/global/workloadIdentityPools/training-project.svc.id.goog/subject/ns/tpu-provisioner/sa/tpu-provisioner-exporter"
    error_message = "The exporter publishes as its Kubernetes account itself."
  }

  assert {
    condition     = keys(google_service_account_iam_member.node_accounts) == ["0/provision", "0/settle", "0/sweep"] && google_service_account_iam_member.node_accounts["0/sweep"].service_account_id == "projects/training-project/serviceAccounts/tpu-nodes@training-project.iam.gserviceaccount.com"
    error_message = "Those who create pools may use the accounts of the nodes."
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
    condition     = google_pubsub_subscription.push["settle"].topic == google_pubsub_topic.nodepool_events[0].id && google_pubsub_subscription.push["settle"].filter == null && google_pubsub_subscription.push["collect"].topic == google_pubsub_topic.workload_events.id
    error_message = "The ends of operations reach settle, and nothing else does."
  }

  assert {
    condition     = length(output.replay_commands) == 3 && strcontains(output.replay_commands[0], "gcloud pubsub subscriptions seek tpu-provisioner-")
    error_message = "Every push subscription can be replayed."
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
    condition     = keys(google_project_iam_member.node_pools) == ["main/collect", "main/provision", "main/settle", "main/sweep"] && alltrue([for each in google_project_iam_member.node_pools : each.condition[0].title == "only the cluster train" && each.condition[0].expression == "resource.name == \"projects/training-project/locations/us-east5/clusters/train\" || resource.name.startsWith(\"projects/training-project/locations/us-east5/clusters/train/\")"])
    error_message = "The functions may reach and change the served cluster, and no other one whose name only begins like it."
  }

  assert {
    condition     = length(google_project_iam_custom_role.pool_sizes) == 0 && length(google_project_iam_member.pool_sizes) == 0
    error_message = "Nobody may change instance groups unless elastic pools need it."
  }

  assert {
    condition     = { for speed in ["fast", "slow"] : speed => [for each in google_monitoring_alert_policy.this["errors_burn_${speed}"].conditions : [each.display_name, each.condition_threshold[0].threshold_value]] } == { fast = [["errors use up the month's budget, fast: 1h", 14.4], ["errors use up the month's budget, fast: 5m", 14.4]], slow = [["errors use up the month's budget, slow: 6h", 6], ["errors use up the month's budget, slow: 30m", 6]] }
    error_message = "A burn is looked for over two times at two rates."
  }

  assert {
    condition     = google_monitoring_slo.answers.goal == 0.99 && google_monitoring_slo.answers.service == google_monitoring_custom_service.functions.service_id && google_monitoring_slo.answers.request_based_sli[0].good_total_ratio[0].good_service_filter == "${google_monitoring_slo.answers.request_based_sli[0].good_total_ratio[0].total_service_filter} AND metric.label.\"response_code_class\"!=\"5xx\"" && strcontains(google_monitoring_slo.answers.request_based_sli[0].good_total_ratio[0].total_service_filter, "full_match(\"tpu-provisioner-collect|tpu-provisioner-provision|tpu-provisioner-settle|tpu-provisioner-sweep\")")
    error_message = "The objective counts the calls of this deployment's functions, and those that end without 5xx."
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
    condition     = toset([for key, each in google_project_iam_member.node_pools : "${each.project}/${split("/", key)[1]}"]) == toset(["other-project/collect", "other-project/provision", "other-project/settle", "other-project/sweep", "training-project/collect", "training-project/provision", "training-project/settle", "training-project/sweep"])
    error_message = "Every function has its role in every cluster's project, and nowhere else."
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
      for reason in ["sweep_over_cap", "cluster_unproven"] : strcontains(
        google_monitoring_alert_policy.this[reason].conditions[0].condition_prometheus_query_language[0].query,
        "reason=\"${reason}\""
      )
    ])
    error_message = "A sweep that a person must look at raises an alert with its reason."
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
    error_message = "150 autoscaled pools, which is the default of the setting, raise an alert, which links to its heading."
  }

  assert {
    condition     = keys(google_monitoring_monitored_project.of_clusters) == ["other-project"]
    error_message = "Alerts must see the metrics of clusters in other projects; those at home they see anyway."
  }

  assert {
    condition     = output.clusters["other"].endpoint == "https://gke-9876.europe-west4.gke.goog"
    error_message = "Every cluster has its own endpoint."
  }
}

run "a_zonal_cluster_has_two_names" {
  command = plan

  variables {
    clusters = { main = { name = "train", location = "us-east5-b" } }
  }

  assert {
    condition     = alltrue([for each in google_project_iam_member.node_pools : each.condition[0].expression == join(" || ", flatten([for name in ["projects/training-project/locations/us-east5-b/clusters/train", "projects/training-project/zones/us-east5-b/clusters/train"] : ["resource.name == \"${name}\"", "resource.name.startsWith(\"${name}/\")"]]))])
    error_message = "IAM knows zonal clusters by zones/, and GKE by locations/ too."
  }
}

run "without_the_condition_the_role_holds_once_in_each_project" {
  command = plan

  variables {
    clusters          = { for number in range(21) : "c${number}" => { name = "train-${number}", location = "us-east5" } }
    limit_to_clusters = false
  }

  assert {
    condition     = keys(google_project_iam_member.node_pools) == [for function in ["collect", "provision", "settle", "sweep"] : "training-project/${function}"] && alltrue([for each in google_project_iam_member.node_pools : length(each.condition) == 0])
    error_message = "One grant for all clusters of a project, by the address that an older state has."
  }
}

run "another_name_and_no_sink" {
  variables {
    name                = "blue"
    operation_events    = false
    demand_wait_minutes = 90
    settings            = { grace_seconds = "600", limit_chips = "256", autoscaled_pools_max = "40", resource_labels = "{\"cost\": \"42\"}" }
    elastic_pools       = true
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
    condition     = google_cloud_scheduler_job.sweep.paused == false
    error_message = "A build must resume the sweep that a destroy build has paused, if that stopped half-way."
  }

  assert {
    condition     = keys(google_project_iam_member.pool_sizes) == ["training-project/provision", "training-project/sweep"] && google_project_iam_custom_role.pool_sizes["training-project/sweep"].permissions == toset(["compute.instanceGroupManagers.update"])
    error_message = "Who wants elastic pools gets them looked after."
  }

  assert {
    condition     = alltrue([for each in google_project_iam_custom_role.creations : contains(each.permissions, "compute.instanceGroupManagers.get")])
    error_message = "The sweep must read what keeps pools without nodes, also without elastic pools."
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
    condition     = strcontains(google_monitoring_alert_policy.this["autoscaled_pools"].conditions[0].condition_prometheus_query_language[0].query, "user_blue_autoscaled_pools_sum{") && endswith(google_monitoring_alert_policy.this["autoscaled_pools"].conditions[0].condition_prometheus_query_language[0].query, " > 39.5")
    error_message = "The alert about autoscaled pools must read this deployment's figure, and have the number of its setting."
  }

  assert {
    condition     = strcontains(google_monitoring_alert_policy.this["demands_wait"].conditions[0].condition_prometheus_query_language[0].query, "user_blue_oldest_wait_seconds_sum{") && endswith(google_monitoring_alert_policy.this["demands_wait"].conditions[0].condition_prometheus_query_language[0].query, " > 5400")
    error_message = "The alert about demands must read this deployment's figure, and have the wished minutes in seconds."
  }

  assert {
    condition     = length(google_logging_project_sink.operations) == 0 && output.topics.nodepool_events == null
    error_message = "Without operation_events nothing is routed."
  }

  assert {
    condition     = !contains(keys(output.function_uris), "settle") && output.subscriptions.settle == null && length(output.rbac_users) == 3 && length([for key in concat(keys(google_project_iam_member.node_pools), keys(google_project_iam_member.pool_sizes), keys(google_service_account_iam_member.node_accounts)) : key if endswith(key, "/settle")]) == 0
    error_message = "Without operation_events nothing calls settle, so it does not exist and its account may do nothing."
  }

  assert {
    condition     = google_service_account.this["provision"].account_id == "blue-provision" && google_logging_metric.decisions.name == "blue/decisions" && startswith(google_project_iam_custom_role.node_pools["training-project"].role_id, "blue_node_pools_")
    error_message = "Everything carries the name."
  }

  assert {
    condition     = google_cloudfunctions2_function.this["collect"].service_config[0].environment_variables["TPU_PROVISIONER_GRACE_SECONDS"] == "600"
    error_message = "Settings reach the functions."
  }

  assert {
    condition     = jsondecode(google_cloudfunctions2_function.this["provision"].service_config[0].environment_variables["TPU_PROVISIONER_RESOURCE_LABELS"]) == { cost = "42", tpu-provisioner-deployment = "training-project_blue" }
    error_message = "The machines of a pool name the deployment, beside the operator's labels."
  }
}

run "a_later_apply_keeps_the_roles" {
  assert {
    condition     = can(regex("^tpu_provisioner_node_pools_[0-9]{14}$", output.role_ids["training-project"]))
    error_message = "The role's id must carry the time of the deployment."
  }

  assert {
    condition     = output.role_ids == run.one_cluster.role_ids
    error_message = "The time is that of the first apply: a later one must not make another role."
  }
}

run "no_autoscaled_pools" {
  variables {
    settings = { autoscaled_pools_max = "0" }
  }

  assert {
    condition     = !contains(keys(google_monitoring_alert_policy.this), "autoscaled_pools")
    error_message = "Who wants no autoscaled pool must not get an alert about each one of others."
  }
}
