"""Shared by all that is deployed: `core` (pure), `edges`, `engine` and `wiring`.

Functions, exporter and CLI may import everything below this package; nothing here imports them.
"""
