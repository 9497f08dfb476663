"""Messages that are sent again: `replay` and `dead-letters`."""
