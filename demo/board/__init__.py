"""The board of the local stack: that of `tpu-provisioner board`, with faults and examples."""
