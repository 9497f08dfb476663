"""The cloud on a laptop: stand-ins for GKE, Pub/Sub and the cluster, the stack that joins them, and the demo.

Nothing that is deployed imports from here.
"""
