"""Upstream's cluster autoscaler on the instance groups of a cloud that is served elsewhere."""
