"""A simulated kubelet for all nodes.

It makes bound pods run and end, as annotations on the pods say.

What lives here: a client of the public Kubernetes API, so that it drives any API server. What does
not: any knowledge of the embedded cluster, of Jobs or of JobSets beyond the pod's own labels.
"""
