"""GKE's cluster autoscaler in small: it fills the groups of node pools for pods that wait.

`model` decides and does no I/O; `node_groups` reads and acts. See README.md.
"""
