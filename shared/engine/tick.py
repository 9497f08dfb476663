"""One look at a whole cluster, once a minute: it brings everything to rest without any message.

It reads the cluster's lists once, cuts them into looks by workload, and calls the same `reconcile`
for each. `provision` takes its keys from pods that wait, `collect` from the owners of pools.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from shared.engine.figures import measure
from shared.engine.look import Key, Lists
from shared.engine.reconcile import Result, Role, reconcile
from shared.engine.report import Outcome, report
from shared.kinds.table import find_kind_of_pod
from shared.model.errors import OutOfTime, ProvisionerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.engine.look import Look, Memory
    from shared.engine.outside import Ports
    from shared.model.readings import PoolNode
    from shared.model.workloads import PodView

YOUNG_SECONDS = 5.0
"""A pod that waits for less is left out, because its message is about to be handled."""
TICK_SECONDS = 55.0


@dataclass(slots=True)
class Tick:
    """What one tick of one cluster did."""

    outcomes: list[Outcome] = field(default_factory=list)
    errors: list[tuple[str, Exception]] = field(default_factory=list)
    left: int = 0
    """Keys for which no time was left; the next tick begins with them."""
    figures: dict[str, int] = field(default_factory=dict)
    """What it measured, for alerts; empty if the cluster could not be listed."""


def tick(cluster: str, role: Role, ports: Ports, memory: Memory) -> Tick:
    """Look at every workload of a cluster that waits, or that has pools. No error is raised.

    An error about one workload stops no other.
    """
    done, began = Tick(), ports.clock.now()
    try:
        lists = read_lists(cluster, ports)
    except ProvisionerError as error:
        done.errors.append((cluster, error))
        return done
    keys = (
        list_waiting(lists, cluster, ports)
        if role == Role.PROVISION
        else list_owners(lists, cluster)
    )
    tasks = [partial(reconcile, key, role, ports, memory, lists) for key in keys]
    results = ports.crew.run(tasks, seconds=TICK_SECONDS - (ports.clock.now() - began))
    told: list[tuple[Look, list[Outcome]]] = []
    for key, result in zip(keys, results, strict=True):
        if isinstance(result, OutOfTime):
            done.left += 1
        elif isinstance(result, Exception):
            done.errors.append((str(key), result))
        else:
            told.append((result.look, report(result, ports)))
            done.outcomes += told[-1][1]
            done.errors += [(str(key), error) for error in result.errors]
    done.figures = measure(role, lists, told)
    if role == Role.COLLECT:
        memory.spare[cluster] = find_spare(results)
    return done


def find_spare(results: Sequence[Result | Exception]) -> frozenset[str]:
    """Return the pools that a tick found too many: the next one may delete them."""
    return frozenset(
        name for result in results if isinstance(result, Result) for name in result.plan.spare
    )


def read_lists(cluster: str, ports: Ports) -> Lists:
    """Return what a tick reads once for all of its looks; pools come before pods.

    Raises:
        ProvisionerError: something could not be listed.
    """
    began, live = ports.clock.now(), ports.clusters[cluster]
    pools = list(ports.pools.list(cluster))
    ports.budget.forget_listed(cluster, [pool.name for pool in pools], began)
    operations = list(ports.pools.list_operations(cluster))
    nodes: dict[str, list[PoolNode]] = {}
    pools_of: dict[str, str] = {}
    for node in live.list_nodes():
        nodes.setdefault(node.pool, []).append(node)
        pools_of[node.name] = node.pool
    pods: dict[tuple[str, str, str], list[PodView]] = {}
    users: dict[str, list[PodView]] = {}
    for pod in live.list_accelerator_pods():
        if pod.finished:
            continue
        kind = find_kind_of_pod(pod)
        if kind is not None:
            pods.setdefault((kind.name, pod.namespace, kind.find_owner(pod)), []).append(pod)
        if pod.node_name in pools_of:
            users.setdefault(pools_of[pod.node_name], []).append(pod)
    return Lists(
        pools=pools, nodes=nodes, pods=pods, users=users, operations=operations, began_at=began
    )


def list_waiting(lists: Lists, cluster: str, ports: Ports) -> list[Key]:
    """Return the workloads whose pods wait: those without a pool first, then the longest wait."""
    now, owners = ports.clock.now(), {pool.owner.key for pool in lists.pools if pool.owner}
    since: dict[tuple[str, str, str], float] = {}
    for owner, pods in lists.pods.items():
        waits = [pod.unschedulable_since or pod.created_at or 0.0 for pod in pods if _waits(pod)]
        if waits and now - min(waits) >= YOUNG_SECONDS and owner[0] in ports.settings.kinds:
            since[owner] = min(waits)
    ordered = sorted(since, key=lambda owner: (owner in owners, since[owner]))
    idle = {
        pool.owner.key
        for pool in lists.pools
        if pool.owner and _is_idle(lists.nodes.get(pool.name, ()))
    }
    return [Key(cluster, *owner) for owner in (*ordered, *sorted(idle - since.keys()))]


def _waits(pod: PodView) -> bool:
    return pod.unschedulable and not (
        pod.node_name or pod.gates or pod.nominated_node or pod.deleting
    )


def _is_idle(nodes: Sequence[PoolNode]) -> bool:
    return any(node.idle_since is not None for node in nodes)


def list_owners(lists: Lists, cluster: str) -> list[Key]:
    """Return the workloads that have pools, the oldest pool first."""
    pools = sorted(lists.pools, key=lambda pool: (pool.owner and pool.owner.created_at) or 0)
    owners = dict.fromkeys((*pool.owner.key, pool.owner.uid) for pool in pools if pool.owner)
    return [Key(cluster, *owner) for owner in owners]


def count_verbs(done: Tick) -> dict[str, int]:
    """Return how many decisions of each verdict a tick made, for its answer."""
    counts: dict[str, int] = {"errors": len(done.errors), "left": done.left}
    for outcome in done.outcomes:
        verdict = str(outcome.decision.verdict)
        counts[verdict] = counts.get(verdict, 0) + 1
    return counts
