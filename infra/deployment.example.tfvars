# What a deployment is: copy this file to deployment.tfvars in the top folder, and set what you need. The build keeps it
# beside Terraform's state; a later build without the file takes the kept one. infra/terraform/variables.tf has every
# variable, and the pages of its modules have those of `environment` and `provisioner`.

# The most chips that the provisioner keeps in a cluster; 0: no limit. Without it: 256.
limit_chips = 16
# Who gets the alerts.
alert_email = "team@example.com"
# docs/runbook.md as your people read it.
# runbook_url = "https://example.com/runbook"

# A training environment to create: network, cluster, bucket, JobSet, Kueue with a queue.
environment = {
  zone         = "us-central1-a" # of the TPU nodes
  cluster_name = "training"      # infra/bootstrap.sh --cluster=REGION/training
  tpu_type     = "v5litepod-16"  # the queue's slice
  num_of_chips = 16              # the queue's quota
  # region = "us-east5"          # of the cluster, if it is not that of the build
  # quotas = { v6e-16 = 64 }     # more slices in the queue
  # more_namespaces = ["research"]
  # num_tpu_pools = 1            # pools that exist before they are needed, and are paid for
  # create_tensorboard = true    # infra/bootstrap.sh --tensorboard
}

# Or clusters that exist, without `environment`:
# clusters = { main = { name = "training", location = "us-east5", zone = "us-east5-b" } }
# node_service_accounts = ["nodes@my-project.iam.gserviceaccount.com"]

# Settings of the functions (docs/reference/settings.md).
# settings = { grace_seconds = "600" }

# A budget that sends alerts, a private network, your own keys, and so on (infra/terraform/modules/provisioner).
# provisioner = { demand_wait_minutes = 60 }

# jobset_version = "v0.12.0"
# kueue_version  = "none"
