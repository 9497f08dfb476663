"""The fake GKE: the node pool part of `google.container.v1.ClusterManager`, without machines.

One pure model (`model`, `faults`) takes a clock and a seed and does no I/O. What GKE does is
written in standins/google/gke/README.md.
"""
