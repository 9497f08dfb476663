# The functions' way into a network of yours, by Direct VPC egress:
# https://cloud.google.com/functions/docs/running/direct-vpc. Without functions_egress nothing here exists.

locals {
  kms_key = var.services_kms_key == "" ? null : var.services_kms_key

  egress_settings = {
    none                = null
    all                 = "VPC_EGRESS_ALL_TRAFFIC"
    private-ranges-only = "VPC_EGRESS_PRIVATE_RANGES_ONLY"
  }
  clusters_in_region = [for key, each in local.clusters : key if startswith(each.location, var.region)]
  functions_subnet = var.functions_subnet != "" || var.functions_egress == "none" ? var.functions_subnet : (
    regex("projects/[^/]+/regions/[^/]+/subnetworks/[^/]+$", data.google_container_cluster.served[local.clusters_in_region[0]].subnetwork)
  )
}

data "google_compute_subnetwork" "functions" {
  count = var.functions_egress == "none" ? 0 : 1

  project = split("/", local.functions_subnet)[1]
  region  = split("/", local.functions_subnet)[3]
  name    = split("/", local.functions_subnet)[5]

  lifecycle {
    postcondition {
      condition     = self.private_ip_google_access || var.functions_egress != "all"
      error_message = "functions_egress: all traffic goes through subnet ${self.name}, so it needs Private Google Access: gcloud compute networks subnets update ${self.name} --project ${self.project} --region ${self.region} --enable-private-ip-google-access"
    }

    # https://cloud.google.com/run/docs/configuring/vpc-direct-vpc#direct-vpc-ip-allocation
    postcondition {
      condition     = tonumber(split("/", self.ip_cidr_range)[1]) <= 26
      error_message = "functions_subnet: ${self.name} has the range ${self.ip_cidr_range}; Cloud Run takes addresses in blocks and needs a subnet of /26 or larger."
    }
  }
}
