terraform {
  required_version = ">= 1.11"
  required_providers {
    archive = {
      source  = "hashicorp/archive"
      version = "~> 2.7"
    }
  }
}
