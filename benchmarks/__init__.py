"""`make bench`: measures the project against its budgets.

Everything runs on 127.0.0.1 against stand-ins; nothing here is deployed. How to read it:
`docs/benchmarks.md`.
"""
