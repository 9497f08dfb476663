"""A local Pub/Sub broker: what the service documents, also what Google's emulator leaves out.

`broker`, `subscription` and `limits` do no I/O, `service` has the operations on messages of the
API, `push` the sender of push requests. See standins/google/pubsub/README.md.
"""
