"""The bottom of the cluster: the kinds, the objects with their history, selectors, refusals.

This package imports nothing else of the cluster.
"""
