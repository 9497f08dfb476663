"""Starts the stand-ins together with the product: local stack, demos, and Ray.

Nothing that is deployed imports from here.
"""
