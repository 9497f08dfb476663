"""Registers the nodes of the pools in a Kubernetes API, and removes them."""
