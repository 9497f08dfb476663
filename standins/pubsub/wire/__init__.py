"""The skins of the broker: `google.pubsub.v1` over gRPC and the same operations over REST.

`service` holds the operations once, on protocol buffer messages; `grpc_front` and `rest_front` only
carry them.
"""
