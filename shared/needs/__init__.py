"""What the groups of a workload need: which pools, how many, and the body of each."""
