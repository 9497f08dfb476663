"""The ways to call the model: REST, Compute Engine, in process, and the admin endpoints."""
