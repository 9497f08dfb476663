# Why there is no .terraform.lock.hcl: see ../../provisioner/versions.tf.
terraform {
  required_version = ">= 1.11"
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = "~> 7.45"
    }
  }
}
