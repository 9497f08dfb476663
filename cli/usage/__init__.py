"""The command ``usage``: chip-hours, waits and list prices from the functions' log records."""
