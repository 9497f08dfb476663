"""Stories of the engine on small fakes."""
