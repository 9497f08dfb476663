output "slices" {
  description = "All slices of the catalogue by public name, with the labels of their nodes."
  value       = { for name, each in local.slices : name => { accelerator = each.accelerator, topology = each.topology } }
}

output "slice" {
  description = "One slice of tpu_type: labels, chips and nodes."
  value = {
    tpu_type    = var.tpu_type
    accelerator = local.slice.accelerator
    topology    = local.slice.topology
    nodes       = local.slice.nodes
    chips       = local.slice.chips
  }
}

output "nodes_planned" {
  description = "Nodes of all static pools together, at most."
  value       = var.num_tpu_pools * local.slice.nodes
}

output "pools" {
  description = "Name of each static pool, and what it holds."
  value = {
    for pool in google_container_node_pool.tpu : pool.name => {
      machine_type = local.slice.machine_type
      nodes        = local.slice.nodes
      zone         = var.zone
    }
  }
}

output "workload_policies" {
  description = "Workload policies by topology."
  value       = { for topology, policy in google_compute_resource_policy.slice : topology => policy.name }
}
