"""What reacts to writes: scheduler, Job, JobSet, node, namespace and garbage controllers, and what runs them.

A controller only reads the store and writes through the registry, as if it were a client.
"""
