"""What must have been so for a run to be a good one. Pure: facts in, problems out."""

from collections import Counter

from demo.ray.ray_manifests import GROUPS
from demo.ray.run_log import Facts

ACTORS = 2
CALLS_PER_POOL_MAX = 8
"""Of GKE's own API, as for the slice of a JobSet: docs/lives.md. A pool whose size follows demand
is looked at in Compute Engine also, each time it is asked for."""
_REPLICAS = {"TPU": 1, "GPU": 2}
"""How many replicas two actors need: one slice of two hosts, or two workers of one."""


def list_problems(facts: Facts, kinds: tuple[str, ...]) -> list[str]:
    """Return what is not as it should be."""
    problems: list[str] = []
    for kind in kinds:
        problems += _check_answers(facts, kind) + _check_scaling(facts, kind)
    return problems + _check_calls(facts, kinds)


def _check_answers(facts: Facts, kind: str) -> list[str]:
    pods = [answer["pod"] for answer in facts.answers if answer["kind"] == kind]
    if len(set(pods)) != ACTORS:
        return [f"{kind}: actors answered from {len(set(pods))} workers instead of {ACTORS}"]
    problems = []
    pools = {facts.pool_of_pod.get(pod, "") for pod in pods}
    if len(pools) != 1 or "" in pools:
        problems.append(f"{kind}: the workers are not on one pool but on {sorted(pools)}")
    if kind == "TPU" and len({facts.replica_of_pod.get(pod, pod) for pod in pods}) != 1:
        problems.append(f"{kind}: the workers are of several replicas: {pods}")
    return problems


def _check_scaling(facts: Facts, kind: str) -> list[str]:
    seen = facts.replicas_seen.get(GROUPS[kind], [])
    good = seen[:1] == seen[-1:] == [0] and max(seen) == _REPLICAS[kind]
    return [] if good else [f"{kind}: replicas went {seen}, not from 0 to {_REPLICAS[kind]} and back"]


def _check_calls(facts: Facts, kinds: tuple[str, ...]) -> list[str]:
    accepted = Counter(call.method for call in facts.calls if call.code == "OK")
    problems = [
        f"GKE accepted {method} {accepted[method]} times instead of {len(kinds)}, once per kind"
        for method in ("CreateNodePool", "DeleteNodePool")
        if accepted[method] != len(kinds)
    ]
    per_pool = Counter(call.pool for call in facts.calls if not call.method.startswith("compute."))
    return problems + [
        f"{count} calls about {pool}; at most {CALLS_PER_POOL_MAX} are expected"
        for pool, count in per_pool.items()
        if count > CALLS_PER_POOL_MAX
    ]
