"""Stories of faults in virtual time, on the two functions as production runs them."""
