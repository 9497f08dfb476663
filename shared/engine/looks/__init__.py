"""What the engine reads, how old it may be, and how many calls run side by side."""
