"""The demo: apply manifests to a local stack, follow what `status` says, verify the end."""
