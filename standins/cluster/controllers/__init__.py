"""What reacts to writes: the scheduler, the other controllers, and the runner that calls them.

A controller reads the store and writes through `writing`, like a client of the API. This package
imports `writing`, `objects` and `store`.
"""
