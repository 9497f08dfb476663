"""The demo for every kind of workload: manifests on a real control plane with their own controllers."""
