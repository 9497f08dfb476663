"""Reads what one workload has and wants, and makes the scene of it.

A look is made from live reads, or from the lists of a tick. Within a look pools come before pods:
a pool that is listed too early may only lead to one create too few.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from shared.engine.kueue import Standing, read_standing
from shared.kinds.table import get_kind
from shared.model import labels
from shared.model.errors import KindAbsent, ProvisionerError, Unavailable
from shared.model.names import HASH_CHARACTERS, Claim, parse_name
from shared.model.pools import ELASTIC_SLOT, UNDER_WAY, PoolShape
from shared.model.times import measure_seconds
from shared.needs.wanted import Wanted, list_wanted
from shared.plan.scene import Asks, Creation, Fact, Pod, Pool, Scene, Stop, Whose, Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from shared.engine.outside import Ports
    from shared.model.names import Slot
    from shared.model.pools import NodePool
    from shared.model.readings import BoundPod, Machines, Operation, PoolNode
    from shared.model.workloads import PodView, WorkloadView
    from shared.plan.scene import Ask, Need

HOUR = 3600.0
SPARE_SLOTS = 8
"""So many slots above those that it needs a workload may have used before."""
MODES = {"active": Stop.NOTHING, "no-create": Stop.CREATES, "report-only": Stop.EVERYTHING}


@dataclass(frozen=True, slots=True)
class Key:
    """One workload of one cluster, by its name."""

    cluster: str
    kind: str
    namespace: str
    name: str
    uid: str = ""
    """Empty for the one that has the name now; else that one only, and it may be gone."""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(slots=True)
class Memory:
    """What a process remembers of pools. Without it acts come later, and never wrongly."""

    missing_since: dict[str, float] = field(default_factory=dict)
    """By pool, when nodes were first seen to be missing, in unix seconds."""
    spare: dict[str, frozenset[str]] = field(default_factory=dict)
    """By cluster, the pools that the last tick found too many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    """What a tick has read of a cluster once for all of its looks."""

    pools: Sequence[NodePool]
    nodes: Mapping[str, Sequence[PoolNode]]
    """By pool."""
    pods: Mapping[tuple[str, str, str], Sequence[PodView]]
    """The accelerator pods of the cluster by kind, namespace and name of their workload."""
    users: Mapping[str, Sequence[PodView]]
    """The accelerator pods on each pool of ours."""
    operations: Sequence[Operation] | None
    began_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look saw, with what its acts need beside the scene."""

    key: Key
    scene: Scene
    wanted: Wanted
    workload: WorkloadView | None
    pools: Mapping[str, NodePool]
    """Of the owner, by name."""
    pods: Sequence[PodView] = ()
    stop_cause: str = ""
    standing: Standing
    """What Kueue says of it."""
    began_at: float


def take_look(key: Key, ports: Ports, memory: Memory, lists: Lists | None = None) -> Look:
    """Return what a workload has and wants now.

    Raises:
        ProvisionerError: pools or pods could not be read; the look says nothing then.
    """
    began_at, live, settings = ports.clock.now(), ports.clusters[key.cluster], ports.settings
    pools = lists.pools if lists else ports.pools.list(key.cluster)
    workload, known = _read_owner(key, ports)
    standing = read_standing(key, workload, ports) if workload else Standing()
    workload = standing.owner or workload
    mine = [pool for pool in pools if _is_owned(pool, key, workload)]
    pods = _read_pods(key, workload, ports, lists)
    nodes = _read_nodes(key, mine, ports, lists)
    pools_of = {node.name: node.pool for each in nodes.values() for node in each}
    wanted = list_wanted(key.cluster, workload, pods, pools_of, settings) if workload else Wanted()
    stop, cause = read_stop(key, ports)
    users = _list_foreign(mine, key, lists)
    viewed = tuple(
        _view(pool, nodes.get(pool.name, ()), memory, key, lists, ports) for pool in mine
    )
    now = ports.clock.now()
    others = [pool for pool in pools if pool.owner and pool not in mine]
    counted = (*viewed, *(_view(pool, (), memory, key, lists, ports) for pool in others))
    scene = Scene(
        now=now,
        needs=wanted.needs,
        pods=(*wanted.pods, *users),
        pools=viewed,
        over=_is_over(workload),
        owner_known=known,
        suspended_since=_find_suspension(workload, viewed, now),
        queue=standing.queue,
        quota_lost_at=standing.lost_at,
        retried=standing.retried,
        part_held_since=min((pool.created_at for pool in viewed), default=None),
        part_seconds=standing.queued.seconds if standing.queued else 0,
        room=ports.budget.count_room(key.cluster, key.namespace, counted, pools, now),
        slots=ports.budget.count_slots(key.cluster, counted, now),
        stop=stop,
        refused=ports.budget.list_refused(key.cluster, now),
        creations=_list_known(key, wanted, workload, lists, now),
        autoscaled_elsewhere=sum(pool.autoscaled for pool in others),
    )
    return Look(
        key=key,
        scene=scene,
        wanted=wanted,
        workload=workload,
        pools={pool.name: pool for pool in mine},
        pods=pods,
        stop_cause=cause,
        standing=standing,
        began_at=began_at,
    )


def add_facts(look: Look, asks: Iterable[Ask], ports: Ports, memory: Memory) -> Look:
    """Return the look with what its plan asked for; what cannot be read stays unknown and is told.

    The pods on nodes are read last, because a deletion rests on them.
    """
    scene, pools = look.scene, {pool.name: pool for pool in look.scene.pools}
    pods, wanted = list(scene.pods), sorted(asks, key=lambda ask: ask.fact == Fact.USERS)
    creations = scene.creations
    for ask in wanted:
        if ask.fact == Fact.OPERATIONS:
            operations = ports.pools.list_operations(look.key.cluster)
            uid = look.workload.uid if look.workload else ""
            creations = _list_creations(look.key, scene.needs, uid, operations, scene.now)
        elif ask.fact == Fact.MACHINES:
            pools[ask.pool] = _add_word(
                pools[ask.pool], ports.pools.read_machines(look.pools[ask.pool]), scene.now
            )
        else:
            pods += _read_users(look, ask.pool, ports)
            pools[ask.pool] = dataclasses.replace(pools[ask.pool], users_read=True)
    changed = dataclasses.replace(
        scene, pools=tuple(pools.values()), pods=tuple(pods), creations=creations
    )
    return dataclasses.replace(look, scene=changed)


def read_stop(key: Key, ports: Ports) -> tuple[Stop, str]:
    """Return what the label of our own namespace, or of the workload's, forbids, and where it is.

    No namespace, no answer and an unknown value forbid every act: a stop that is not understood
    must not be passed over.
    """
    found = [
        _read_label(name, ports, key.cluster)
        for name in (ports.settings.own_namespace, key.namespace)
    ]
    order = list(Stop)
    return max(found, key=lambda each: order.index(each[0]))


def _read_label(namespace: str, ports: Ports, cluster: str) -> tuple[Stop, str]:
    try:
        seen = ports.clusters[cluster].get_namespace(namespace)
    except ProvisionerError as error:
        return Stop.EVERYTHING, f"namespace {namespace} could not be read: {error}"
    if seen is None:
        return Stop.EVERYTHING, f"namespace {namespace}, whose label may stop us, does not exist"
    value = seen.labels.get(labels.MODE)
    if value is None:
        return Stop.NOTHING, ""
    text = f"the label {labels.MODE}={value} of namespace {namespace}"
    stop = MODES.get(value)
    return (Stop.EVERYTHING, f"{text} has an unknown value") if stop is None else (stop, text)


def _read_owner(key: Key, ports: Ports) -> tuple[WorkloadView | None, bool]:
    """Return the workload, and whether its presence or absence is known."""
    try:
        workload = ports.clusters[key.cluster].get_workload(key.kind, key.namespace, key.name)
    except (KindAbsent, Unavailable):
        return None, False
    return (workload if workload and key.uid in ("", workload.uid) else None), True


def _is_owned(pool: NodePool, key: Key, workload: WorkloadView | None) -> bool:
    """Return whether a pool is of the workload; the Go program's name no UID, so it is by its name."""
    owner = pool.owner
    if owner is None or owner.key != (key.kind, key.namespace, key.name):
        return False
    if workload is not None:
        return owner.uid in ("", workload.uid)
    return owner.uid == key.uid or not key.uid


def _read_pods(
    key: Key, workload: WorkloadView | None, ports: Ports, lists: Lists | None
) -> list[PodView]:
    if workload is None:
        return []
    if lists is not None:
        pods: Iterable[PodView] = lists.pods.get((key.kind, key.namespace, key.name), ())
    else:
        pods = ports.clusters[key.cluster].list_workload_pods(workload)
    kind = get_kind(workload.kind)
    return [
        pod
        for pod in pods
        if not pod.finished
        and pod.template.wants_accelerator
        and kind.find_owner_uid(pod) in ("", workload.uid)
    ]


def _read_nodes(
    key: Key, pools: Sequence[NodePool], ports: Ports, lists: Lists | None
) -> Mapping[str, Sequence[PoolNode]]:
    """Return the nodes of pools by pool; nothing is read if the workload has no pool."""
    if lists is not None:
        return lists.nodes
    nodes: dict[str, list[PoolNode]] = {}
    names = [pool.name for pool in pools]
    for node in ports.clusters[key.cluster].list_nodes(names) if names else ():
        nodes.setdefault(node.pool, []).append(node)
    return nodes


def _list_foreign(pools: Sequence[NodePool], key: Key, lists: Lists | None) -> list[Pod]:
    """Return the pods of other workloads on the pools, as far as a tick has listed them."""
    if lists is None:
        return []
    owner = (key.kind, key.namespace, key.name)
    own = {pod.uid for pod in lists.pods.get(owner, ())}
    return [
        _view_foreign(pod.uid, pool.name, pod.created_at)
        for pool in pools
        for pod in lists.users.get(pool.name, ())
        if pod.uid not in own
    ]


def _view_foreign(uid: str, pool: str, created_at: float | None) -> Pod:
    return Pod(
        need="", slice=uid, pool=pool, created_at=created_at or 0.0, asks=Asks(PoolShape(""))
    )


def _read_users(look: Look, pool: str, ports: Ports) -> list[Pod]:
    """Return the pods of others on a pool's nodes, which are read side by side."""
    live = ports.clusters[look.key.cluster]
    nodes = [node.name for node in live.list_nodes([pool])]
    done = ports.crew.run([partial(live.list_bound_pods, node) for node in nodes], seconds=10.0)
    known, users = {pod.uid for pod in look.pods}, list[Pod]()
    for each in done:
        if isinstance(each, Exception):
            raise each
        users += [
            _view_foreign(pod.uid, pool, pod.created_at) for pod in each if _is_foreign(pod, known)
        ]
    return users


def _is_foreign(pod: BoundPod, known: set[str]) -> bool:
    return bool(pod.chips) and pod.uid not in known


def _view(
    pool: NodePool,
    nodes: Sequence[PoolNode],
    memory: Memory,
    key: Key,
    lists: Lists | None,
    ports: Ports,
) -> Pool:
    """Return a pool in the words of the plan."""
    owner, ready = pool.owner, [node for node in nodes if node.ready]
    idle = [node.idle_since for node in nodes]
    now = ports.clock.now()
    lacks = len(ready) < pool.hosts and not pool.elastic
    missing_since = (
        memory.missing_since.setdefault(pool.name, now)
        if lacks and ready and not pool.autoscaled
        else None
    )
    if missing_since is None:
        memory.missing_since.pop(pool.name, None)
    return Pool(
        name=pool.name,
        whose=Whose.OTHER
        if owner is None
        else Whose.DEPLOYMENT
        if owner.slot is not None
        else Whose.GO,
        status=pool.status,
        shape=pool.shape,
        node_labels=pool.node_labels,
        taints=pool.taints,
        slot=owner.slot if owner else None,
        attempt=owner.attempt if owner else 0,
        candidate=owner.candidate if owner else 0,
        round=owner.round if owner else 0,
        useless=owner.useless if owner else 0,
        created_at=float(owner.created_at or 0) if owner else 0.0,
        autoscaled=pool.autoscaled,
        maximum=pool.node_count,
        busy=pool.status in UNDER_WAY,
        ready=len(ready),
        ready_since=max((node.ready_at or 0.0 for node in ready), default=None),
        word=Word.LOST if missing_since is not None else None if lacks else Word.NONE,
        word_at=missing_since or 0.0,
        users_read=lists is not None,
        spare_before=pool.name in memory.spare.get(key.cluster, frozenset()),
        idle_since=min((each for each in idle if each is not None), default=None),
        closed_since=min((node.idle_since or 0.0 for node in nodes if node.closed), default=None),
    )


def _add_word(pool: Pool, machines: Machines, now: float) -> Pool:
    """Return a pool with what GKE says of the nodes that it lacks."""
    errors = [error for error in machines.errors if not error.tries]
    if not errors:
        return dataclasses.replace(pool, word=pool.word or Word.NONE)
    at = min(error.at if error.at is not None else now for error in errors)
    return dataclasses.replace(pool, word=pool.word or Word.CAUSE, word_at=at)


def _list_creations(
    key: Key, needs: Iterable[Need], uid: str, operations: Iterable[Operation], now: float
) -> tuple[Creation, ...]:
    """Return the creates of the last hour in the slots of a workload's needs, by their names."""
    young = [each for each in operations if each.creates and now - (each.began_at or 0.0) <= HOUR]
    hashes = {parsed.hash for each in young if (parsed := parse_name(each.pool))}
    if not hashes:
        return ()
    slots = {
        claim.hash[:HASH_CHARACTERS]: (need.key, slot)
        for need in needs
        for slot in list_slots(need)
        for claim in [make_claim(key, uid, need, slot)]
    }
    return tuple(
        Creation(
            need=slots[parsed.hash][0],
            slot=slots[parsed.hash][1],
            attempt=parsed.attempt,
            began_at=each.began_at or 0.0,
        )
        for each in young
        if (parsed := parse_name(each.pool)) and parsed.hash in slots
    )


def list_slots(need: Need) -> list[Slot]:
    """Return the slots that a need may use."""
    if need.elastic:
        return [ELASTIC_SLOT]
    return [need.pin] if need.pin else list(range(need.most + SPARE_SLOTS))


def make_claim(key: Key, uid: str, need: Need, slot: Slot) -> Claim:
    """Return the claim of one slot of a need."""
    return Claim(
        cluster=key.cluster,
        kind=key.kind,
        namespace=key.namespace,
        name=key.name,
        owner_uid=uid,
        need=need.key,
        slot=slot,
    )


def _list_known(
    key: Key, wanted: Wanted, workload: WorkloadView | None, lists: Lists | None, now: float
) -> tuple[Creation, ...] | None:
    """Return the creates as far as a tick has listed them; None if they were not read."""
    if lists is None or lists.operations is None:
        return None
    return _list_creations(
        key, wanted.needs, workload.uid if workload else "", lists.operations, now
    )


def _is_over(workload: WorkloadView | None) -> bool:
    return workload is None or workload.deleting or bool(workload.terminal)


def _find_suspension(
    workload: WorkloadView | None, pools: Sequence[Pool], now: float
) -> float | None:
    """Return since when a workload is suspended; None if it is not.

    A suspension without a time that can be true began after its pools were made, by our own clock.
    """
    if workload is None or not workload.suspended:
        return None
    told = (
        workload.suspended_since
        if workload.suspended_since is not None
        else workload.suspend_set_at
    )
    if measure_seconds(told, now) is not None and told is not None:
        return min(told, now)
    return max((pool.created_at for pool in pools), default=now)
