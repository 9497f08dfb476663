"""The ways to call the model: gRPC, REST, Compute Engine, in process, and the admin endpoints."""
