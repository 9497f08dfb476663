"""``tpu-provisioner conformance``: asks Google what the code assumes, in a project of a person."""
