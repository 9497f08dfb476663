"""What one look saw of a workload, and its scene: the same in the words of the plan. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct, structs

from shared.engine.budget import Inventory, Key, Nodes, Operations, Tries, WorkloadName
from shared.kinds.table import find_kind_of_pod
from shared.model.decisions import Reason
from shared.model.names import Claim, Owner, Slot
from shared.model.pools import Machines, NodePool, Operation, PoolNode, PoolStatus
from shared.model.workloads import CheckState, PodView, QueuedWorkload, WorkloadView
from shared.needs.wanted import Wanted, view_pod
from shared.plan.limits import Means
from shared.plan.scene import Pod, Pool, PoolOperation, Scene, Stop, Way, Word
from shared.settings import Settings

AHEAD_SECONDS_MAX = 60.0  # clocks of machines that are synchronised differ by far less
HOUR = 3600.0  # assumes: permissions, operations-kept
LIST_SECONDS = 120.0  # how long after the end of its create a pool may be missing in GKE's list
NEEDS_MAX = 5_000
"""The claims of so many needs are remembered: each tick asks for the nine or more of each again."""
SPARE_SLOTS = 8  # so many slots above those that it needs a workload may have used before
_NOBODY = Owner()
_COMPLETE = (PoolStatus.RUNNING, PoolStatus.RUNNING_WITH_ERROR)
StopAndCause = tuple[Stop, str]  # what the label of a namespace forbids, and where it is
FREE: StopAndCause = Stop.NOTHING, ""


class Standing(Struct, frozen=True, kw_only=True):
    """What Kueue says of a workload now."""

    owner: WorkloadView | None = None
    """The workload with quota as Kueue will resume it; None to take it as it is."""
    queued: QueuedWorkload | None = None  # the Workload with our check, if that waits for an answer
    check: CheckState | None = None
    seconds: int = 0  # for how long a part of its pools is held
    lost_at: float = 0.0
    retried: bool = False
    answer: tuple[Reason, str] | None = None
    """What the check is told, where a plan changes nothing: the spec can never be resumed, or not
    now, though another flavor or queue may serve it."""


class Lists(Struct, frozen=True, kw_only=True):
    """What was read before a look: what is missing here it reads itself.

    A tick reads a cluster once for all of its looks, and a second look begins with the first one's.
    """

    cluster: str = ""
    whole: bool = False  # a tick has read pools, nodes and pods of the cluster
    names: frozenset[str] = frozenset()  # the pools that a second look is for, which it reads anew
    inventory: Inventory = Inventory()
    nodes: Nodes = {}
    pods: Mapping[WorkloadName, Sequence[PodView]] = {}
    """The accelerator pods of the cluster by kind, namespace and name of their workload."""
    users: Mapping[str, Sequence[PodView]] = {}  # the accelerator pods on pools that were read
    operations: Operations | None = None
    stops: dict[str, StopAndCause] = {}  # by namespace
    workloads: dict[WorkloadName, WorkloadView] = {}
    """Those that were listed; one that is not among them is read by its name."""
    began_at: float = 0.0
    until: float = 0.0  # when the last act may begin


LIVE = Lists()  # nothing was read


class Look(Struct, kw_only=True):
    """What was read of one workload, and the scene that follows from it."""

    key: Key
    workload: WorkloadView | None = None
    plain: WorkloadView | None = None
    """It as its author wrote it, without Kueue's flavors, if that is another."""
    is_known: bool = True  # whether its presence or absence could be read
    standing: Standing = Standing()  # what Kueue says of it
    parent_keeps: str = ""  # why the parent keeps the workload after its own end
    stop: StopAndCause = FREE
    inventory: Inventory = Inventory()
    pools: Mapping[str, NodePool] = {}  # of the owner, by name
    nodes: Nodes = {}
    missing_since: dict[str, float] = {}
    """By pool, when nodes that existed were first seen to be missing."""
    spare: frozenset[str] = frozenset()
    """The pools of the cluster that the last tick found too many."""
    pods: Sequence[PodView] = ()
    wanted: Wanted = Wanted()
    room: Means = Means(0, 0)
    refusals: Mapping[Way, str] = {}
    """The ways that GKE refused at once a moment ago, each with its words."""
    operations: Operations | None = None  # None: they were not read
    machines: dict[str, Machines | None] = {}
    """Of the pools about which GKE was asked; None: it gave no answer."""
    users: dict[str, Sequence[PodView]] = {}
    """The pods of others on the pools about which the nodes were asked."""
    places: dict[str, str] = {}  # the pool of each pod that these nodes have, by its UID
    unread: set[str] = set()
    """Pools of which a node gave no answer. Nothing is done to them: they may be in use."""
    scene: Scene = Scene(now=0.0)  # the same in the words of the plan
    began_at: float = 0.0
    now: float = 0.0  # when it ended; ages are measured against it
    users_read_at: float | None = None
    """When the pods on its nodes began to be read, one node after the other."""
    until: float = 0.0  # when the last act may begin
    errors: list[Exception] = []  # why a fact about one pool could not be read

    @property
    def uid(self) -> str:
        """Return the UID of the workload; empty if it is gone and nothing names it."""
        return self.workload.uid if self.workload else self.key.uid

    def measure_wait(self, need: str = "") -> float | None:
        """Return how long the first pod that waits exists, of one need or of all; None if none."""
        pods = (pod for pod in self.scene.pods if pod.waits and need in ("", pod.need))
        since = min((pod.created_at for pod in pods), default=None)
        return None if since is None else self.now - since


def view(look: Look, settings: Settings) -> Scene:
    """Return the scene of what was read; what was not read is unknown in it."""
    now, workload, standing = look.now, look.workload, look.standing
    pools = tuple(_view_pool(pool, look) for pool in look.pools.values())
    operations = look.operations
    return Scene(
        now=now,
        needs=look.wanted.needs,
        pods=tuple(_list_pods(look)),
        pools=pools,
        over=is_over(workload),
        owner_known=look.is_known,
        owner_created_at=workload.created_at if workload else None,
        suspended_since=_find_suspension(workload, pools, now),
        queued=standing.owner is not None,
        quota_lost_at=standing.lost_at,
        retried=standing.retried,
        part_held_since=_find_held_since(standing.queued, pools),
        part_seconds=standing.seconds,
        room=look.room.chips,
        slots=look.room.slots,
        stop=look.stop[0],
        refused=frozenset(look.refusals),
        operations=None if operations is None else tuple(_list_operations(look, operations)),
        takers_served=_are_served(look),
        parent_over=bool(look.parent_keeps),
        autoscaled=look.inventory.autoscaled,
        creation_seconds=settings.creation_seconds_max,
        grace_seconds=settings.grace_seconds,
    )


def is_over(workload: WorkloadView | None) -> bool:
    """Return whether a workload is gone, or says itself that it needs no pool any more."""
    return workload is None or workload.deleting or bool(workload.terminal)


def _find_held_since(queued: QueuedWorkload | None, pools: Sequence[Pool]) -> float | None:
    """Return since when a part of the pools is held for a workload with quota.

    Pools that are left from before it got its quota, since GKE works on them, count from then, and
    so does the quota alone, if all tries have failed.
    """
    if queued is None or not pools:
        return None
    reserved_at = queued.reserved_at or 0.0
    held = (pool.owner.created_at for pool in pools if pool.status != PoolStatus.ERROR)
    return max(min(held, default=reserved_at), reserved_at)


def _find_suspension(
    workload: WorkloadView | None, pools: Sequence[Pool], now: float
) -> float | None:
    """Return since when a workload is suspended.

    A suspension without a time that can be true began after its pools were made, by our own clock.
    """
    if workload is None or not workload.suspended:
        return None
    since = workload.suspended_since
    if since is None:
        since = workload.suspend_set_at
    # To wait until a time far ahead is past would wait for as long as that clock is wrong.
    if since is not None and since <= now + AHEAD_SECONDS_MAX:
        return min(since, now)
    return max((pool.owner.created_at for pool in pools), default=now)


def _are_served(look: Look) -> bool:
    """Return whether a workload whose pods are on a pool of this one has a pool on its way."""
    return any(
        pool.status == PoolStatus.PROVISIONING
        for taker in list_takers(look)
        for pool in look.inventory.by_owner.get(taker, ())
    )


def _view_pool(pool: NodePool, look: Look) -> Pool:
    """Return a pool with what its labels say of it, and with what was read of its nodes."""
    nodes = look.nodes.get(pool.name, ())
    ready = [node.ready_at or 0.0 for node in nodes if node.ready]
    idle, closed = _list_marks(nodes)
    word, word_at, cause = _find_word(pool, ready, look)
    machines = look.machines.get(pool.name)
    return Pool(
        **structs.asdict(pool),
        owner=pool.owner or _NOBODY,
        shape=pool.shape,
        node_labels=pool.node_labels,
        busy=pool.name in look.unread,
        ready=len(ready),
        nodes=len(nodes),
        ready_since=max(ready, default=None),
        word=word,
        word_at=word_at,
        cause=cause,
        machines=machines.present + machines.coming if machines else None,
        users_read=pool.name in look.users,
        spare_before=pool.name in look.spare,
        idle_since=min(idle, default=None),
        closed_since=min(closed, default=None),
    )


def _list_marks(nodes: Sequence[PoolNode]) -> tuple[list[float], list[float]]:
    """Return since when nodes of a warm pool are idle, and that of those that are closed."""
    marked = [(node.idle_since, node.closed) for node in nodes if node.idle_since]
    return [since for since, _ in marked], [since for since, closed in marked if closed]


def _find_word(pool: NodePool, ready: list[float], look: Look) -> tuple[Word | None, float, str]:
    """Return what is known of the nodes that a pool lacks, since when, and GKE's own words.

    None in place of a word: GKE was not asked. A new node of an elastic pool overcomes errors.
    """
    lost_at, machines = look.missing_since.get(pool.name), look.machines.get(pool.name)
    word, since = (Word.NONE, 0.0) if lost_at is None else (Word.LOST, lost_at)
    if pool.name not in look.machines and lost_at is None:
        return None, since, ""
    overcome_at = max(ready, default=0.0) if pool.elastic else 0.0
    causes = machines.list_causes(overcome_at, look.now) if machines else []
    if not causes:
        return word, since, ""
    return word or Word.CAUSE, min(causes)[0], causes[-1][1]


def has_lost_nodes(pool: NodePool, nodes: Sequence[PoolNode]) -> bool:
    """Return whether nodes that existed are missing.

    A pool that its autoscaler fills, or that is off, may be RUNNING without any: a part shows it.
    """
    ready = sum(node.ready for node in nodes)
    if pool.elastic or pool.status not in _COMPLETE or ready >= pool.hosts:
        return False
    comes_whole = pool.maximum > 0 and not pool.autoscaled
    return ready > 0 or (comes_whole and pool.status == PoolStatus.RUNNING)


def _list_pods(look: Look) -> Iterator[Pod]:
    """Yield the own pods, then those of others on the pools.

    Own ones that were placed since they were listed hold their pool.
    """
    for pod, listed in zip(look.wanted.pods, look.pods, strict=False):
        place = "" if pod.pool else look.places.get(listed.uid, "")
        yield structs.replace(pod, pool=place, waits=False) if place else pod
    for pool, users in look.users.items():
        yield from (view_pod(pod, pool) for pod in users)


def find_user(pod: PodView) -> WorkloadName:
    """Return kind, namespace and name of a pod's workload; of a pod without one, its own."""
    kind = find_kind_of_pod(pod)
    if kind is None:
        return "Pod", pod.namespace, pod.name
    return kind.name, pod.namespace, kind.find_owner(pod)


def list_takers(look: Look) -> frozenset[WorkloadName]:
    """Return the other workloads whose pods are on the owner's pools."""
    return frozenset(find_user(pod) for users in look.users.values() for pod in users)


def list_claims(look: Look) -> Iterator[Claim]:
    """Yield the claims of all slots that the needs of a workload may use."""
    for need in look.wanted.needs:
        slots = need.list_slots(need.most + SPARE_SLOTS)
        yield from _make_claims(look.key, look.uid, need.key, slots)


@lru_cache(maxsize=NEEDS_MAX)
def _make_claims(key: Key, uid: str, need: str, slots: Sequence[Slot]) -> Sequence[Claim]:
    return [make_claim(key, uid, need, slot) for slot in slots]


@lru_cache
def make_claim(key: Key, uid: str, need: str, slot: Slot) -> Claim:
    """Return the claim of one slot of a need, whose hash is slow to make."""
    return Claim(**structs.asdict(key) | {"uid": uid}, need=need, slot=slot)


def _list_operations(look: Look, operations: Operations) -> Iterator[PoolOperation]:
    """Yield what GKE's operations of the last hour say of the slots of a workload's needs.

    A name of ours that a pool of others has is used too.
    """
    for claim in list_claims(look):
        key, need, slot = claim.hash, claim.need, claim.slot
        for attempt in look.inventory.strangers.get(key, ()):
            yield PoolOperation(need=need, slot=slot, attempt=attempt)
        tries = operations.get(key, ())
        for name, each in tries:
            began_at = each.began_at or 0.0
            if look.now - began_at <= HOUR:
                yield PoolOperation(
                    need=need,
                    slot=slot,
                    creates=each.creates,
                    attempt=name.attempt,
                    useless=name.useless,
                    began_at=began_at,
                    failed=bool(each.error),
                    pending=each.creates and _is_pending(each, tries, look),
                )


def _is_pending(create: Operation, tries: Tries, look: Look) -> bool:
    """Return whether the list does not show the pool of a create yet, which may still come.

    Another delivery or instance sent it after the list, or the list lags.
    """
    late = create.ended_at is not None and look.now - create.ended_at >= LIST_SECONDS
    deleted = any(each.pool == create.pool and not each.creates for _, each in tries)
    return not (create.error or late or deleted or create.pool in look.inventory.pools)
