"""The operator's commands.

These change something: `replay`, `letters replay`, `letters discard`, `board --write`, `config set`
and `config unset`. All others only read.
"""
