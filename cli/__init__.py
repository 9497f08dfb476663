"""The operator's commands.

These change something: `replay`, `dead-letters discard`, and `board --write`.
All others only read.
"""
