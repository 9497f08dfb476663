"""The one way of both functions: key, look, plan, act, tell.

- `look` makes the scene of what `reads` has read of one workload, in the words of `views`;
  `inventory` is what the cluster has.
- `reconcile` makes the plan, a second one before anything is taken away; `act` does it.
- `budget` counts chips, operation slots, refusals and deletions, and whose turn a free slot is.
- `work` lets one thread work on a key, for a message, the end of an operation and a `tick` alike.
- `tell` says what was decided, to Kueue too; `kueue` is what Kueue says.

What reads raises `Retryable` if there is no answer, and `Denied` if the permission is missing.
Docstrings say that only where more follows from it.
"""
