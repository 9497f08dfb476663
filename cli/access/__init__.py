"""Which deployment a command is about, with which settings, and how it is reached."""
