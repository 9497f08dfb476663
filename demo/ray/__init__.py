"""Ray itself on the local stack: head, autoscaler and workers run as processes."""
