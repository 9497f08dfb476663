"""An embedded Kubernetes: API server, scheduler, Job and JobSet controllers in one process.

Not here: the kubelet, which is a client of the public API (`standins.kubelet`), and the cloud that
brings nodes (`standins.google.gke`). The README says which package holds what.
"""
