# Answers of Google Cloud where made-up text would not do.

mock_data "google_project" {
  defaults = {
    number = "123456789"
  }
}

mock_data "google_compute_subnetwork" {
  defaults = {
    network                  = "projects/training-project/global/networks/train-network"
    self_link                = "projects/training-project/regions/us-east5/subnetworks/train-subnet"
    private_ip_google_access = true
    secondary_ip_range = [
      { range_name = "pods", ip_cidr_range = "10.132.0.0/14" },
      { range_name = "services", ip_cidr_range = "192.168.80.0/20" },
    ]
  }
}

mock_resource "google_container_cluster" {
  defaults = {
    id = "projects/training-project/locations/us-east5/clusters/train"
  }
}
