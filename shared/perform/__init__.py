"""The shell: look, decide, look again, change, tell.

Entries: `answer_waiting` (a message about a workload), `release_pools` (a workload is over),
`settle` (an operation has ended), `sweep`. A `look` is what one of them works with, and a turn is
what one slice needs. `make_attempt`, `serving_pools` and `elastic_pools` answer a slice,
`gang_pools` all slices at once. Each write is in `changes`, behind its guards.

What reads raises `Retryable` if there is no answer, and `Denied` if the permission is missing.
Docstrings say that only where more follows from it.
"""
