"""The engine: look, decide, look again, change, tell. Each folder imports only those below it.

- `entries`: `answer_waiting` (a message about a workload), `settle` (an operation has ended),
  `sweep`. A workload that is over comes in by `steps.release_pools`.
- `steps`: what is done for a slice (`make_attempt`, `serving_pools`, `elastic_pools`), for all
  slices at once (`gang_pools`), and for a workload. A turn is what one slice needs.
- `changes`: each write of node pools, nodes and workloads, behind its guards.
- `looks`: what is read. A `Look` is what one entry works with.
- `tell`: Events, and the facts of log records.

What reads raises `Retryable` if there is no answer, and `Denied` if the permission is missing.
Docstrings say that only where more follows from it.
"""
