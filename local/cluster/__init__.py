"""An embedded Kubernetes: API server, scheduler, Job and JobSet controllers in one process.

What lives here: everything behind `python -m local.cluster`. What does not: the kubelet, which is a client
of the public API like any other (`local.kubelet`), and the cloud that brings nodes (`local.fakegke`).
Inside, `store` knows objects and history, `admission` what a write turns into, `controllers` what reacts to
writes, and `api` how all of that is spoken over HTTP.
"""
