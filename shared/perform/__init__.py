"""The thin shell around the rules: gather, decide, read again, act, explain. It uses ports only.

- `gather`: reads what is known about a pool, its owner and the pods on it, and about namespaces.
- `answer_demand`: from a waiting leader pod to its pool. `release_pools`: from an ended workload to
  its deleted pools. `resize_pools`: elastic pools. `sweep`: all of it, every minute.
- `holders`, `followers`: find why a pod waits although its pool is running.
- `side_by_side`: independent tasks at the same time.
- `explain`: Events. `outcome`: what is logged of each decision.

No module knows HTTP, the environment or credentials, and none constructs a `Decision`.
"""
