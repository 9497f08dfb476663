"""What the cluster reads of its objects: their shapes, the names of labels, quantities.

This package imports `store` only.
"""
