"""Messages that are sent again: `replay` and `letters`."""
