"""The exporter: a process in the cluster that reports to Pub/Sub what it sees. It decides nothing.

It watches leader pods without a node and workloads that are over, each kind in its own thread, and
publishes a hint for each object. It never reads nodes and never calls GKE. It writes nothing to the
cluster but its own Lease. It imports `shared`, but never `functions`, `cli` or `standins`.
"""
