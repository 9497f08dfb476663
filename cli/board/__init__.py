"""The board: one live page about a deployment, on 127.0.0.1 (docs/board.md)."""
