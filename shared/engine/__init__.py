"""The one way of both functions: key, look, plan, act, tell.

- `reads` makes a `look` of what it reads of one workload, and its scene.
- `reconcile` makes the plan, a second one before anything is taken away, and does its acts.
- `budget` counts chips, operation slots, refusals and deletions, and whose turn a free slot is.
- `wakes` lets one thread work on a key, for a message, the end of an operation and a tick alike.
- `tell` says what was decided, to Kueue too; `kueue` is what Kueue says.

What is raised is said here only. Reads raise `Retryable` without an answer and `Denied` without a
permission; acts raise `OldLook` or `OutOfTime` if they come too late, and `Rejected` if GKE would
not accept them. `wakes` raises nothing: one object never stops the others.
"""
