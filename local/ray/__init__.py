"""Ray itself on the local cloud: its head, its autoscaler and its workers as processes (docs/demo-ray.md)."""
