"""The demo of every kind of workload, on a real control plane with the kinds' own controllers."""
