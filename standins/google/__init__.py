"""Google's APIs in one process: GKE, Compute's instance groups, Pub/Sub, and reading Cloud Logging.

Routes, methods and types are those of Google's own clients (`api`).
"""
