"""The operator's commands. Only `replay` and `dead-letters discard` change something."""
