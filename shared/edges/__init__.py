"""One module for each outside system: GKE, cluster, Pub/Sub, clock, logs. It translates errors.

No decision is taken here: an edge answers questions and carries out orders in the words of
`shared.model`.
"""
