"""A fake GKE control plane for laptops and tests.

The node pool part of `google.container.v1.ClusterManager`.

One pure model (`model`, `lifecycle`, `operations`, `admission`, `reads`, `faults`) takes a clock
and a seed and does no I/O; `rest_skin` puts it within reach. `registrar` writes the Node objects of
ready pools into a Kubernetes API. What GKE does is written in standins/fakegke/README.md. Nothing
here is imported by anything that is deployed.
"""
