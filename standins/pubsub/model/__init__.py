"""The broker as a pure model.

Topics, subscriptions, leases, retries, dead letters, filters, replay.

It takes a clock, and does no I/O: no sockets, no threads, no event loop, no protocol
buffers. The skins in `standins.pubsub.wire` and the sender in `standins.pubsub.push` speak to it
through `Broker`.
"""
