"""How many calls of GKE a slice may cost in a run of the demo."""

from typing import Any

CALLS_PER_DECISION = 2
"""A look and an act.

How often a decision is made, for example while pods still end, depends on the machine.
"""


def assert_few_calls(one: dict[str, Any]) -> None:
    """Accept a slice with one create, one delete, and no more looks than its decisions need."""
    methods, refused = one["gke_calls_by_method"], one["gke_calls_refused"]
    assert methods["CreateNodePool"] + methods["DeleteNodePool"] <= 2 + refused, methods
    told = [(each["function"], each["decision"], each["reason"]) for each in one["decisions"]]
    # A call that GKE refuses, because it is busy or the pool exists, is followed by one more look.
    assert one["gke_calls"] <= CALLS_PER_DECISION * (len(told) + refused), (methods, refused, told)
