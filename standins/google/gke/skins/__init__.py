"""The ways to call the model: REST, Compute Engine, and the admin endpoints."""
