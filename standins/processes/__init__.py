"""Child processes, free ports and shutdown, for every stand-in and for the demo."""
