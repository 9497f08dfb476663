"""The exporter: one loop in the cluster that reports what it sees to Pub/Sub, and decides nothing.

It watches leader pods without a node and workloads that are over, and publishes a hint for each. It
never reads nodes, never calls GKE, and writes nothing to the cluster but its own Lease. It imports
`shared`, never `functions` or `local`.
"""
