"""The one way of both functions: key, look, plan, act, tell.

What is raised is said here only. Reads raise `Retryable` without an answer and `Denied` without a
permission; acts raise `OldLook` or `OutOfTime` if they come too late, and `Rejected` if GKE would
not accept them. `wakes` raises nothing: one object never stops the others.
"""
