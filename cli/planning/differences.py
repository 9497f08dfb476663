"""Compares a plan with the node pools that run for the same workloads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cli.planning.makers import GENERATED
from shared.model.pools import LOST

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cli.planning.plan import PlannedSlice
    from shared.model.pools import PoolSnapshot

_MADE = "([bcdfghjklmnpqrstvwxz2456789]{5}|[0-9]{7,})"
"""What Kubernetes and KubeRay append to a generated name, or a CronJob to the name of its Job:
https://github.com/kubernetes/kubernetes/blob/v1.34.4/staging/src/k8s.io/apimachinery/pkg/util/rand/rand.go."""
_Key = tuple[str, str, str]
"""Kind, namespace and name of a workload."""


def compare(planned: Sequence[PlannedSlice], pools: Iterable[PoolSnapshot]) -> list[str]:
    """Return a line for each pool that the plan adds, keeps, changes or no longer needs.

    A pool is that of a slice by the names in its labels; of several, one that lives. A workload
    whose name is generated is compared with each live one that may have been made of the same
    manifest.
    """
    mine: dict[_Key, dict[str, PoolSnapshot]] = {}
    for pool in sorted(pools, key=lambda each: each.status not in LOST):
        if pool.owner is not None:
            key = (pool.owner.kind, pool.owner.namespace, pool.owner.name)
            mine.setdefault(key, {})[pool.owner.slice_name] = pool
    lines: list[str] = []
    for key in dict.fromkeys((each.kind, each.namespace, each.workload) for each in planned):
        slices = [each for each in planned if (each.kind, each.namespace, each.workload) == key]
        for live in _find_live(key, mine) or [key]:
            lines += _compare_workload(slices, live, mine.get(live, {}))
    return lines


def _find_live(key: _Key, mine: Iterable[_Key]) -> list[_Key]:
    """Return the live workloads that may be a planned one."""
    kind, namespace, name = key
    prefix = name.removesuffix(GENERATED)
    pattern = re.compile(re.escape(prefix) + (_MADE if prefix != name else ""))
    return sorted(each for each in mine if each[:2] == (kind, namespace) and pattern.fullmatch(each[2]))


def _compare_workload(slices: Sequence[PlannedSlice], live: _Key, pools: dict[str, PoolSnapshot]) -> list[str]:
    lines, wanted = [], set()
    _, namespace, name = live
    for each in slices:
        slice_name = each.slice if name == each.workload else name + each.slice.removeprefix(each.workload)
        wanted.add(slice_name)
        pool = pools.get(slice_name)
        if each.demand is None or not each.creates:
            continue
        if pool is None or pool.owner is None or pool.status in LOST:
            lost = f"; node pool {pool.name} ({pool.status}) does not serve it" if pool else ""
            lines.append(f"+ {namespace}/{slice_name}: a new pool, {each.demand.shape}{lost}")
        elif pool.owner.was_made_for(each.demand.fingerprint):
            lines.append(f"= {namespace}/{slice_name}: node pool {pool.name} ({pool.status}) serves it")
        else:
            what = f"node pool {pool.name} ({pool.status}) does not have this shape, {each.demand.shape}"
            lines.append(f"~ {namespace}/{slice_name}: {what}")
    return lines + [
        f"- {namespace}/{gone}: node pool {pool.name} is deleted, because the manifest has no such slice"
        for gone, pool in sorted(pools.items())
        if gone not in wanted
    ]
