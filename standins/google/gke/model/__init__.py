"""GKE without machines: pools, operations, limits, refusals. No network and no real clock."""
