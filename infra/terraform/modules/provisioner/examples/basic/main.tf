module "provisioner" {
  source = "../.."

  project_id            = "my-project"
  region                = "us-central1"
  functions_archive     = "${path.root}/functions.zip"
  node_service_accounts = ["tpu-nodes@my-project.iam.gserviceaccount.com"]
  clusters              = { main = { name = "training", location = "us-east5", zone = "us-east5-b" } }
}
