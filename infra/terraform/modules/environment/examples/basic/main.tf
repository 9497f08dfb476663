module "environment" {
  source = "../.."

  project_id                      = "my-project"
  region                          = "us-east5"
  zone                            = "us-east5-b"
  cluster_name                    = "training"
  network_name                    = "training"
  subnet_name                     = "training"
  artifact_repository_bucket_name = "my-project-artifacts"
  node_service_account            = "tpu-provisioner-nodes@my-project.iam.gserviceaccount.com"
}
