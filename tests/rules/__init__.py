"""The rules, on all inputs."""
