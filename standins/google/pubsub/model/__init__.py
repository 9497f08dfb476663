"""The broker as a pure model.

Topics, subscriptions, leases, retries, dead letters, filters, replay.

It takes a clock, and does no I/O: no sockets, no threads, no event loop, no protocol
buffers. `service` and the sender in `push` speak to it through `Broker`.
"""
