"""What all stand-ins share: addresses, child processes, logs and signals, Kubernetes clients."""
