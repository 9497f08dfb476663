"""A local Pub/Sub broker: what the service documents, including what Google's emulator leaves out.

`model` is the broker without I/O, `wire` its gRPC and REST skins, `push` the sender of push
requests, `server` the process. See standins/pubsub/README.md. Nothing that is deployed imports this
package.
"""
