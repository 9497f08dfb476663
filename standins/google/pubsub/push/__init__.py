"""Push delivery.

What is sent to an endpoint, how it is signed, how many at a time, and what an answer means.
"""
