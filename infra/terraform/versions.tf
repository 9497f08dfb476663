terraform {
  required_version = ">= 1.11"

  # Configured by the build: terraform init -backend-config=bucket=… -backend-config=prefix=…
  backend "gcs" {}

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = "~> 7.45"
    }
  }
}
