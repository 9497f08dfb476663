"""What is there now: `status`."""
