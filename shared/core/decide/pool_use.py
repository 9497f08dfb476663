"""Decides what to do when the pods on a pool are not the pods that it was created for. Pure.

A pool in use is never deleted because of its name. A pool that is empty while its slice runs on
another pool is deleted. A slice whose pool is used by another slice gets one more pool. Pods of
other workloads are never moved; an Event tells the owner of the pool about them. So are two slices
whose leaders share a pool.

Why a pod waits although the pool of its slice runs and nothing else uses it is told by the nodes.
The words of the scheduler are added, because it knows more: what other pods use, and rules between
pods.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from shared.core import labels
from shared.core.decide.limits import count_pool_chips
from shared.core.decide.needed_pools import may_have_surplus
from shared.core.decide.pool_facts import OwnerState, has_ended
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.identity.pool_index import PoolIndex
from shared.core.identity.pools import LOST, PoolStatus
from shared.core.kinds.elastic import is_leader
from shared.core.kinds.table import find_kind, may_swap
from shared.core.times import format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from shared.core.decide.needed_pools import PoolPlan
    from shared.core.decide.pool_facts import Occupancy
    from shared.core.demand.demand import Demand
    from shared.core.identity.names import PoolOwner
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import BoundPod
    from shared.core.workloads import NodeView, PodView, WorkloadView

TAKERS_NAMED_MAX = 3
_COMING = (PoolStatus.PROVISIONING, PoolStatus.RECONCILING)
WORKLOADS_TOLD_MAX = 20
"""The most workloads that are told about one pool."""
PODS_TOLD_MAX = 5
"""The most pods of each of them that are told, beside the workload."""

_GIB = 2**30
_PREFIX = re.compile(r"^\d+/\d+ nodes are available: |( preemption:| no new claims).*$", re.DOTALL)
_COUNT = re.compile(r"^\d+ ")
_OF_KUBERNETES = "node.kubernetes.io/"
"""Taints that follow from the state of a node, which has a sentence of its own:
https://kubernetes.io/docs/reference/labels-annotations-taints/#node-kubernetes-io-not-ready."""
_ADVICE = (
    (labels.SPOT, labels.SPOT, f"the pods need a toleration of the taint {labels.SPOT}"),
    ("Insufficient cpu", " CPU,", "the pod requests more CPU than is free on a node of this machine type"),
    ("Insufficient memory", " memory,", "the pod requests more memory than is free on such a node"),
    ("PersistentVolume's", " disk ", "a disk is in another zone; the pods of one pool need disks of one zone"),
    (_OF_KUBERNETES, " Ready ", "GKE repairs nodes that are not ready"),
)
"""A word of the scheduler, what the nodes' own sentence about it has, and what helps without it."""


def depends_on_use(
    owner: PoolOwner, state: OwnerState, workload: WorkloadView, pools: Sequence[PoolSnapshot]
) -> bool:
    """Return whether the pods on pools may change the state that a pool's labels give its owner.

    Where idle pools are, a slice may run on one, and its own pool came too late. `pools` has at
    least all pools of workloads of the owner's name.
    """
    if state == OwnerState.LIVE:
        return may_have_surplus(workload, pools) or owner.idle_seconds > 0
    queued = state == OwnerState.SUSPENDED and not workload.suspended
    return (state == OwnerState.GONE or queued) and not has_ended(owner, workload) and may_swap(workload)


def judge_use(pool: PoolSnapshot, state: OwnerState, seen: Occupancy, plan: PoolPlan) -> OwnerState:
    """Return the state of a pool's owner after a look at the pods on the pool.

    - The slice was scaled away, or waits in a queue by itself: the pool stays while another slice
      of the workload runs on it.
    - The slice is live but runs on other nodes: its empty pool goes.
    - The slice was scaled away and its pool is empty: the pool stays for a slice of the workload
      that waits for the same shape, because its pods are about to be scheduled there.

    The pool is one for which `depends_on_use` is true. Its owner has that state by the pool's
    labels alone.
    """
    if pool.name in plan.surplus:
        return OwnerState.SURPLUS if state == OwnerState.LIVE else state
    awaited = state == OwnerState.GONE and pool.status not in LOST
    return OwnerState.LIVE if awaited or seen.list_on(pool.name) else state


def decide_holder(
    demand: Demand, asking: PodView, seen: Occupancy, plan: PoolPlan, *, pool_name: str
) -> Decision | None:
    """Return what to do when a pod waits although the pool of its slice runs; None to wait.

    CREATE means one more pool. `pool_name` is the slice's own pool.
    """
    mine, here = seen.slices.get(asking.name), seen.list_on(pool_name)
    if mine is None or not here:
        return None
    hosts = demand.shape.node_count
    others = set(seen.count_slices_on(pool_name)) - {mine.name}
    twins = seen.list_hosts_of(mine.name)
    filling = sum(pod.template.chips > 0 for pod in here)  # a pod without chips fills no host
    if len(twins) >= hosts or (not others and filling >= hosts):
        return Decision(
            Verdict.REFUSE,
            Reason.SLICE_DOUBLED,
            f"other pods of this slice run already ({_name_some(twins or here)}); with this pod the slice "
            "has more pods than hosts, for example after an upgrade of its operator; delete the pods that are "
            "not needed",
        )
    if not others:
        return None
    if mine.name in plan.missing:
        return Decision(Verdict.CREATE, Reason.POOL_ABSENT, "other slices hold every pool of the workload")
    serving = plan.serving.get(mine.name, pool_name)
    going = "the pool of that slice" if serving == pool_name else f"node pool {serving}"
    return Decision(
        Verdict.WAIT,
        Reason.POOL_IN_USE,
        f"another slice of {seen.workload} runs on node pool {pool_name} ({_name_some(here)}); "
        f"this pod goes to {going}",
    )


def decide_replacement(
    decision: Decision, pods: Sequence[BoundPod], *, lost: PoolSnapshot | None = None
) -> Decision:
    """Return the decision to delete a pool, or WAIT while accelerator pods run on it.

    Args:
        decision: to delete it.
        pods: on it.
        lost: the pool, if it has lost hosts. Pods of its own workload do not count then, because
            none of them can go on without the missing hosts.
    """
    users = _list_users(lost, pods)
    if not users:
        return decision
    message = f"{decision.message} as soon as no accelerator pods run on it: {_name_users(users)}"
    return Decision(Verdict.WAIT, Reason.POOL_IN_USE, message)


def find_takers(
    pool: PoolSnapshot, pods: Sequence[BoundPod], *, now: float, drain_seconds_max: float
) -> list[tuple[str, str, str]]:
    """Return kind, namespace and name of the other workloads that use a pool, sorted.

    A pod that terminates does not count until it has taken longer than `drain_seconds_max`.
    """
    overdue = (pod for pod in pods if pod.deleting_since is None or now - pod.deleting_since > drain_seconds_max)
    return _list_users(pool, overdue)


def _list_users(pool: PoolSnapshot | None, pods: Iterable[BoundPod]) -> list[tuple[str, str, str]]:
    """Return the other workloads that have accelerator pods on a pool, sorted."""
    mine = pool.owner.home if pool and pool.owner else None
    return sorted({pod.user for pod in pods if pod.chips} - {mine})


def decide_taken(
    pool: PoolSnapshot, takers: Sequence[tuple[str, str, str]], *, pools: Sequence[PoolSnapshot]
) -> Decision | None:
    """Return the refusal of a pod whose running pool other workloads use; None when it has to wait.

    It waits while GKE creates the pool of one of these workloads: their pods may move there.
    """
    known = PoolIndex.of(pools)
    if not takers or any(each.status in _COMING for taker in takers for each in known.list_named(*taker)):
        return None
    kind = find_kind(pool.owner.kind) if pool.owner else None
    pin = f", or set on the {kind.name} {kind.pin_advice}," if kind and kind.pin_advice else ""
    return Decision(
        Verdict.REFUSE,
        Reason.POOL_TAKEN,
        f"node pool {pool.name} runs, but accelerator pods of other workloads use it ({_name_users(takers)}); "
        "this pod waits until they end. In the pods of each workload of this shape, select a node label of its own"
        f"{pin} so that workloads cannot take each other's nodes",
    )


def decide_shared(asking: PodView, seen: Occupancy, plan: PoolPlan) -> Decision | None:
    """Return the refusal of a pod whose slice shares a pool with another one; None if it does not.

    Neither slice has all of its hosts, and neither can end: each waits for nodes that the other one
    uses. A person must let one leader start again, because only a waiting one gets a pool.
    """
    mine = seen.slices.get(asking.name)
    for pool_name, slices in seen.shared_pools.items():
        if mine is None or mine.name not in slices:
            continue
        others = sorted(slices - {mine.name})
        leaving = others[0] if plan.serving.get(mine.name) == pool_name else mine.name
        moved = [pod for pod in seen.list_on(pool_name) if (it := seen.slices[pod.name]) and it.name == leaving]
        leaders = [pod for pod in moved if is_leader(seen.kind, pod)] or moved
        return Decision(
            Verdict.REFUSE,
            Reason.POOL_TAKEN,
            f"slices {mine.name} and {', '.join(others[:TAKERS_NAMED_MAX])} of {seen.workload} share node pool "
            f"{pool_name}, and none of them has all of its hosts; delete pod {_name_some(leaders)}: its slice "
            "then gets a node pool of its own",
        )
    return None


def _name_users(users: Sequence[tuple[str, str, str]]) -> str:
    return _name_first([f"{kind} {namespace}/{name}" for kind, namespace, name in users])


def _name_first(names: Sequence[str]) -> str:
    more = len(names) - TAKERS_NAMED_MAX
    return ", ".join(names[:TAKERS_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def _name_some(pods: Sequence[PodView]) -> str:
    return ", ".join(sorted(pod.name for pod in pods)[:TAKERS_NAMED_MAX])


def decide_foreign_pods(
    pool: PoolSnapshot, others: Sequence[BoundPod]
) -> list[tuple[Decision, tuple[str, str, str], list[BoundPod]]]:
    """Return what to tell each workload that keeps a pool, with its kind, namespace, name and pods.

    Args:
        pool: one whose own workload is gone, over or suspended, or needs another shape.
        others: the accelerator pods of other workloads on it.
    """
    found: defaultdict[tuple[str, str, str], list[BoundPod]] = defaultdict(list)
    for pod in sorted(others, key=lambda each: each.name):
        found[pod.user].append(pod)
    told = sorted(found.items())[:WORKLOADS_TOLD_MAX]
    return [(_decide(pool, workload, pods), workload, pods[:PODS_TOLD_MAX]) for workload, pods in told]


def _decide(pool: PoolSnapshot, workload: tuple[str, str, str], pods: Sequence[BoundPod]) -> Decision:
    kind, namespace, name = workload
    owner, chips = pool.owner, sum(pod.chips for pod in pods)
    made_for = f"{owner.kind} {owner.namespace}/{owner.name}" if owner else "another workload"
    size = f"{pool.node_count} nodes, {count_pool_chips(pool)} chips or GPUs"
    since = min((pod.created_at for pod in pods if pod.created_at is not None), default=None)
    created = f", created at {format_time(since)}" if since is not None else ""
    named = _name_first([pod.name for pod in pods]) + created
    return Decision(
        Verdict.KEEP,
        Reason.POOL_IN_USE,
        f"{kind} {namespace}/{name} keeps node pool {pool.name} ({size}) with {chips} chips or GPUs (pod {named})"
        f"; {made_for}, for which the pool was created, does not need it any more, and the pool is deleted when "
        "these pods end. Delete them, or select a node label of their own for them, so that they run elsewhere",
    )


def decide_unplaced(
    pod: PodView, pool: PoolSnapshot | None, nodes: Sequence[NodeView] | None, *, wanted: int = 0
) -> Decision:
    """Return why a pod waits although nothing else uses the pool of its slice.

    The counts in the scheduler's words are left out, so that the text stays the same while the
    cluster grows.

    Args:
        pod: the pod that waits.
        pool: the pool of its slice; None if the slice runs on a pool of another one.
        nodes: the nodes that the cluster has of the pool; None if they were not read.
        wanted: how many nodes the pool must have; 0 if that is not known.
    """
    runs = "runs" if pool is None or pool.status == PoolStatus.RUNNING else f"is {pool.status}"
    state = f"node pool {pool.name} {runs}" if pool else "the slice of this pod runs"
    causes = "; ".join(_list_causes(pod, nodes, wanted)) if nodes is not None else ""
    words = _tell_scheduler(pod)
    advice = (text for word, told, text in _ADVICE if word in words and told not in causes)
    why = "; ".join((words, *advice))
    message = f"{state}, but the scheduler finds no place for this pod: {why}"
    if causes:
        message = f"{state}, but this pod cannot run on it: {causes}. The scheduler says: {why}"
    return Decision(Verdict.WAIT, Reason.POD_UNPLACED, message)


def _tell_scheduler(pod: PodView) -> str:
    parts = {_COUNT.sub("", part).strip(" .") for part in _PREFIX.sub("", pod.scheduler_message).split(", ")}
    return "; ".join(sorted(filter(None, parts))) or "it has not said why"


def _list_causes(pod: PodView, nodes: Sequence[NodeView], wanted: int) -> Iterator[str]:
    """Yield what is wrong, first with the pod on any node, then with the nodes."""
    yield from _list_excesses(pod, nodes)
    yield from _list_untolerated(pod, nodes)
    if len(nodes) < wanted:
        spot = pod.template.selects(labels.SPOT) or any(_has_taint(each, labels.SPOT) for each in nodes)
        why = "GKE takes spot nodes away, and adds them again when there is capacity"
        yield f"{len(nodes)} of {wanted} nodes exist; {why if spot else 'GKE adds those that are missing'}"
    ready = [each for each in nodes if each.ready]
    if len(ready) < len(nodes):
        broken = _name_first(sorted(each.name for each in nodes if not each.ready))
        yield f"{len(ready)} of {len(nodes)} nodes are Ready (not {broken}); GKE repairs the others"
    cordoned = [each for each in nodes if each.cordoned]
    if cordoned:
        names = _name_first(sorted(each.name for each in cordoned))
        yield f"{len(cordoned)} of {len(nodes)} nodes are cordoned ({names}); kubectl uncordon admits pods again"


def _list_excesses(pod: PodView, nodes: Sequence[NodeView]) -> Iterator[str]:
    """Yield each resource of which the pod requests more than any node has."""
    asked = pod.template
    rows: tuple[tuple[str, float, list[float | None]], ...] = (
        ("accelerators", asked.units, [each.units for each in nodes]),
        ("CPU", asked.cpu_millis / 1000, [_scale(each.cpu_millis, 1000) for each in nodes]),
        ("GiB of memory", asked.memory_bytes / _GIB, [_scale(each.memory_bytes, _GIB) for each in nodes]),
    )
    for name, wanted, offered in rows:
        known = [each for each in offered if each is not None]
        if known and len(known) == len(nodes) and wanted > max(known):
            yield f"it requests {_format(wanted)} {name}, and a node offers pods {_format(max(known))}"


def _list_untolerated(pod: PodView, nodes: Sequence[NodeView]) -> Iterator[str]:
    """Yield each taint that the pod does not tolerate, but for those of a node's state and ours."""
    found = Counter(
        taint
        for node in nodes
        for taint in node.taints
        if taint.keeps_off
        and not taint.key.startswith((_OF_KUBERNETES, labels.SURPLUS))
        and not pod.template.tolerates(taint)
    )
    for taint, count in sorted(found.items(), key=str):
        yield f"{count} of {len(nodes)} nodes have the taint {taint}, which the pod does not tolerate"


def _scale(amount: int | None, unit: int) -> float | None:
    return None if amount is None else amount / unit


def _format(amount: float) -> str:
    return f"{amount:.2f}".rstrip("0").rstrip(".")


def _has_taint(node: NodeView, key: str) -> bool:
    return any(taint.key == key for taint in node.taints)
