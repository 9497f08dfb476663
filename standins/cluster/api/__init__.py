"""The HTTP side: paths, discovery, lists, watches, patches, verbs, tables for kubectl.

This package imports `writing` and `store`. It does not know the controllers.
"""
