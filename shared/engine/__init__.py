"""The one way of both functions: key, look, plan, act, tell.

- `look` reads what one workload has and wants; `inventory` what the cluster has.
- `reconcile` makes the plan, a second one before anything is taken away, and lets `act` do it.
- `budget` counts chips, operation slots and deletions; `turns` whose turn a free slot is.
- `work` lets one thread work on a key, for a message, the end of an operation and a `tick` alike.
- `tell` says what was decided; `kueue` says it to Kueue too.

What reads raises `Retryable` if there is no answer, and `Denied` if the permission is missing.
Docstrings say that only where more follows from it.
"""
