# Answers of Google Cloud where made-up text would not do.

mock_data "google_project" {
  defaults = {
    number = "123456789"
  }
}

mock_data "google_container_cluster" {
  defaults = {
    control_plane_endpoints_config = [{
      dns_endpoint_config = [{
        allow_external_traffic    = true
        endpoint                  = "gke-0123.us-east5.gke.goog"
        enable_k8s_certs_via_dns  = false
        enable_k8s_tokens_via_dns = false
      }]
      ip_endpoints_config = []
    }]
    workload_identity_config = [{ workload_pool = "training-project.svc.id.goog" }]
    enable_autopilot         = false
    subnetwork               = "projects/training-project/regions/us-east5/subnetworks/train-subnet"
    master_auth = [{
      client_certificate        = ""
      client_certificate_config = []
      client_key                = ""
      cluster_ca_certificate    = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg=="
    }]
    private_cluster_config = [{
      enable_private_endpoint     = true
      enable_private_nodes        = true
      master_global_access_config = []
      master_ipv4_cidr_block      = ""
      peering_name                = ""
      private_endpoint            = "10.129.0.2"
      private_endpoint_subnetwork = ""
      public_endpoint             = ""
    }]
  }
}

mock_data "google_compute_subnetwork" {
  defaults = {
    network                  = "https://www.googleapis.com/compute/v1/projects/training-project/global/networks/train-network"
    private_ip_google_access = true
    ip_cidr_range            = "10.129.0.0/20"
  }
}

mock_resource "google_pubsub_topic" {
  defaults = {
    id = "projects/training-project/topics/a-topic"
  }
}

mock_resource "google_logging_project_sink" {
  defaults = {
    writer_identity = "serviceAccount:service-123456789@gcp-sa-logging.iam.gserviceaccount.com"
  }
}
