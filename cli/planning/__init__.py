"""What a manifest would get: `plan`."""
