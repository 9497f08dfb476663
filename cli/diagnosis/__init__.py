"""What is wrong with a deployment: `doctor`."""
