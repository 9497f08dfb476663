"""Starts the stand-ins together with the product: the local stack and the demo.

Nothing that is deployed imports from here.
"""
