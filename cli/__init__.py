"""The operator's commands.

These change something: `replay`, `dead-letters discard`, `board --write`, `config set`
and `config unset`. All others only read.
"""
