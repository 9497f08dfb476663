"""The table itself. A further kind of workload is an entry in a module of its own, and a name in `KINDS`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core.elastic import leave_out_elastic, list_elastic
from shared.core.errors import TooManySlices
from shared.core.kinds.deployment import DEPLOYMENT
from shared.core.kinds.job import JOB
from shared.core.kinds.jobset import JOBSET
from shared.core.kinds.leaderworkerset import LEADERWORKERSET
from shared.core.kinds.pod import make_pod
from shared.core.kinds.raycluster import RAYCLUSTER
from shared.core.kinds.statefulset import STATEFULSET

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from shared.core.kinds.kind import Kind, ParentKind, SliceOfPod
    from shared.core.workloads import PodView, WorkloadView

_CONTROLLED = (JOBSET, RAYCLUSTER, LEADERWORKERSET, JOB, DEPLOYMENT, STATEFULSET)
KINDS: tuple[Kind, ...] = (*_CONTROLLED, make_pod([kind.name for kind in _CONTROLLED]))
"""In the order in which a pod is asked: a kind that makes objects of another kind stands before that one."""
KIND_NAMES = tuple(kind.name for kind in KINDS)
SLICES_MAX = 10_000
"""Slices of one workload that are listed; each is a node pool, and no cluster has as many."""
_BY_NAME = {kind.name: kind for kind in KINDS}


def find_kind(name: str) -> Kind | None:
    """Return the kind of that name, or None when the table has none."""
    return _BY_NAME.get(name)


def get_kind(name: str) -> Kind:
    """Return the kind of that name, which came from the table itself.

    Raises:
        KeyError: it did not.
    """
    return _BY_NAME[name]


def find_parent_kind(kind: str, name: str) -> ParentKind:
    """Return what may have made the workloads of one kind, by its own kind, which came from the table itself.

    Raises:
        KeyError: it did not.
    """
    return {each.name: each for each in get_kind(kind).parents}[name]


def find_kind_of_pod(pod: PodView) -> Kind | None:
    """Return the first kind in the table that a pod says it is of, or None."""
    return next((kind for kind in KINDS if kind.find_owner(pod)), None)


def list_slices(workload: WorkloadView) -> Sequence[SliceOfPod]:
    """Return every slice and elastic pool that a workload's spec wants, as its pods will have them.

    Raises:
        TooManySlices: they are more than `SLICES_MAX`; no list of them is made.
        Rejected: the kind cannot tell them apart, for example `SliceUnknown`.
    """
    slices = leave_out_elastic(workload)
    wanted = sum(group.replicas for group in slices.groups)
    if wanted > SLICES_MAX:
        raise TooManySlices(
            "too many slices for one workload", field="spec", value=str(wanted), valid=f"at most {SLICES_MAX}"
        )
    kind = get_kind(workload.kind)
    return [*(kind.list_slices(slices) if slices.groups else ()), *list_elastic(workload)]


def select_pods(kind: Kind) -> str:
    """Return the label selector of the pods that may speak for a slice of this kind and of no earlier one."""
    return ",".join(filter(None, (kind.pod_selector, *_select_unmarked(kind))))


def select_members(kind: Kind) -> str:
    """Return the label selector of all pods of this kind's slices, of no earlier kind's; empty where all speak."""
    return ",".join((kind.member_selector, *_select_unmarked(kind))) if kind.member_selector else ""


def select_pods_of(workload: WorkloadView) -> str:
    """Return the label selector of a workload's accelerator pods, where they must be seen; empty where not."""
    pods_of = get_kind(workload.kind).pods_of
    return pods_of(workload) if pods_of else ""


def select_workloads(kind: Kind) -> str:
    """Return the label selector of the workloads of this kind that no other kind made; empty for all of them."""
    return ",".join(_select_unmarked(kind))


def _select_unmarked(kind: Kind) -> list[str]:
    return [f"!{earlier.mark}" for earlier in KINDS[: KINDS.index(kind)] if earlier.mark]


def choose_kinds(names: Collection[str]) -> tuple[Kind, ...]:
    """Return the kinds of these names, in the table's order; names that the table has not are left out."""
    return tuple(kind for kind in KINDS if kind.name in names)
