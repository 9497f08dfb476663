"""A real Kubernetes control plane on a laptop.

Etcd, API server, controllers, scheduler and JobSet as processes.

What lives here: pinning and building the binaries from their Go modules, starting and ending them,
and preparing the API for use. What does not: any opinion of ours about Kubernetes; the embedded
cluster that has one is `standins.cluster`.
"""
