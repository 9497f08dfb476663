"""What is done for one workload or one slice: a pool is made, kept, resized or let go."""
