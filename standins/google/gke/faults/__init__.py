"""What can go wrong, as data: faults, and the scenario that a world starts with."""
