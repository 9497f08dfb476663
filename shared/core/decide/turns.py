"""Orders the leaders that wait for one scarce thing: no namespace takes all of it. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.core.workloads import PodView


def order_by_turns(pods: Iterable[PodView]) -> list[PodView]:
    """Return pods in turn among namespaces; in each namespace the longest wait is first."""
    by_namespace: defaultdict[str, list[PodView]] = defaultdict(list)
    for pod in sorted(pods, key=_rank):
        by_namespace[pod.namespace].append(pod)
    turns = ((at, _rank(pod), pod) for found in by_namespace.values() for at, pod in enumerate(found))
    return [pod for *_, pod in sorted(turns, key=lambda each: each[:2])]


def _rank(pod: PodView) -> tuple[float, str, str]:
    since = math.inf if pod.unschedulable_since is None else pod.unschedulable_since
    return since, pod.namespace, pod.name
