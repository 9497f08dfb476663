"""`doctor` warns of settings that are valid and still do harm."""
