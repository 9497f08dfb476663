# No .terraform.lock.hcl is committed: a lock holds the checksums of the registry's packages for every platform, and the
# machine on which this was written reaches a build of the provider only, whose checksum is another. Make one where the
# registry can be reached, and keep it beside the root: terraform providers lock -platform=linux_amd64
terraform {
  required_version = ">= 1.11"
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = "~> 7.45"
    }
  }
}
