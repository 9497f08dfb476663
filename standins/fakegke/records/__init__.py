"""What happened: the calls that were made, and the log."""
