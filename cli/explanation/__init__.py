"""What was decided about a workload and why (`why`), and the lines of the logs (`logs`)."""
