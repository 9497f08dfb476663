"""A local Pub/Sub broker: what the service documents, also what Google's emulator leaves out.

`model` is the broker without I/O, `service` its operations on messages of the API, `push` the
sender of push requests. See standins/google/pubsub/README.md.
"""
