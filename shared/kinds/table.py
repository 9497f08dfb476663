"""The table. A new kind of workload is a class in its own module, and a line in `KINDS`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.kinds.job import JOB
from shared.kinds.jobset import JOBSET
from shared.kinds.leaderworkerset import LEADERWORKERSET
from shared.kinds.pod import BarePod
from shared.kinds.raycluster import RAYCLUSTER, RAYJOB, judge_rayjob
from shared.kinds.replicas import DEPLOYMENT, STATEFULSET

if TYPE_CHECKING:
    from collections.abc import Collection

    from shared.kinds.kind import Kind
    from shared.model.workloads import PodView, WorkloadView

_CONTROLLED = (JOBSET, RAYCLUSTER, LEADERWORKERSET, JOB, DEPLOYMENT, STATEFULSET)
KINDS: tuple[Kind, ...] = (*_CONTROLLED, BarePod(_CONTROLLED))
"""In the order in which a pod is matched: a kind comes before any kind whose objects it creates."""
PARENT, judge_parent = RAYJOB, judge_rayjob
"""The kind that makes workloads of another kind, and what it keeps after its own end."""
KIND_NAMES = tuple(kind.name for kind in KINDS)
_BY_NAME = {kind.name: kind for kind in KINDS}
find_kind = _BY_NAME.get
"""Return the kind of a name, or None."""
get_kind = _BY_NAME.__getitem__
"""Return the kind of a name; KeyError if the table does not have it."""


def find_kind_of_pod(pod: PodView) -> Kind | None:
    """Return the first kind in the table whose workload the pod belongs to, or None."""
    return next((kind for kind in KINDS if kind.find_owner(pod)), None)


def select_pods(kind: Kind) -> str:
    """Return the label selector of the pods that may be leaders of this kind only."""
    return ",".join(filter(None, (kind.pod_selector, *select_unmarked(kind))))


def select_pods_of(workload: WorkloadView) -> str:
    """Return the label selector of a workload's pods; see `is_pod_of`."""
    kind = get_kind(workload.kind)
    return f"{kind.name_label}={workload.name}" if kind.name_label else select_pods(kind)


def is_pod_of(workload: WorkloadView, pod: PodView) -> bool:
    """Return whether a pod that `select_pods_of` selects is one of the workload.

    No label of a Deployment's or StatefulSet's pods has its name, so others of its kind are
    selected too.
    """
    kind = get_kind(workload.kind)
    return bool(kind.name_label) or (
        find_kind_of_pod(pod) is kind and kind.find_owner(pod) == workload.name
    )


def select_unmarked(kind: Kind) -> list[str]:
    """Return the terms of a label selector: of objects that no earlier kind created."""
    return [f"!{earlier.mark}" for earlier in KINDS[: KINDS.index(kind)] if earlier.mark]


def choose_kinds(names: Collection[str]) -> tuple[Kind, ...]:
    """Return the kinds of these names, in the table's order, without unknown names."""
    return tuple(kind for kind in KINDS if kind.name in names)
