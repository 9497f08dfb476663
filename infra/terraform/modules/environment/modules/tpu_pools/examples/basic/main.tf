module "tpu_pools" {
  source = "../.."

  project_id           = "my-project"
  cluster_id           = "projects/my-project/locations/us-east5/clusters/training"
  region               = "us-east5"
  zone                 = "us-east5-b"
  node_service_account = "tpu-nodes@my-project.iam.gserviceaccount.com"
  tpu_type             = "v5litepod-16"
  num_tpu_pools        = 2
}
