"""What was decided about a workload and why (`why`)."""
