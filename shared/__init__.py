"""What the deployables share: `core` (pure), `edges` (one module per outside thing), `perform` and `wiring`.

Functions, exporter and CLI may import everything below this package; nothing here imports them.
"""
