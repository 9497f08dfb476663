"""One module per outside thing (GKE, the cluster, Pub/Sub, the clock, logs); each translates types and errors.

No decision is taken here: an edge answers questions and carries out orders in the words of `shared.core`.
"""
