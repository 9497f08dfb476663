"""What a machine is: the catalogues of TPUs and GPUs, and the look-ups from pods to nodes."""
