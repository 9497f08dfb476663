"""The reads of one look: live, from the lists of a tick, or anew by name for a second look.

Then what its plan asks for: GKE's operations, what keeps machines away, the pods on nodes.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from shared.engine.inventory import take_inventory
from shared.engine.views import add_word, read_records, sort_operations, view_stranger
from shared.kinds.table import find_kind_of_pod, get_kind
from shared.model import labels
from shared.model.errors import KindAbsent, ProvisionerError
from shared.model.labels import DEPLOYMENT
from shared.model.pools import PoolStatus
from shared.needs.ways import list_volume_claims
from shared.plan.scene import Fact, Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from shared.engine.inventory import Inventory, Key, WorkloadName
    from shared.engine.look import From, Look, Memory, StopAndCause
    from shared.engine.outside import Ports
    from shared.engine.views import Operations
    from shared.model.pools import NodePool
    from shared.model.readings import BoundPod, PoolNode
    from shared.model.workloads import Parent, PodView, WorkloadView
    from shared.plan.scene import Ask, Pod

SHARED_SECONDS = 2.0
"""How old a list of pools may be that another look has read, and how long ago a namespace was seen
to have no stop; before a create only."""
GETS_MAX = 16
"""A fresh look at more pools reads by name those only that it is for."""
CLAIMS_MAX = 20
READ_SECONDS = 60.0
"""How long the reads that a plan asks for may take together."""
T = TypeVar("T")


def list_inventory(cluster: str, ports: Ports, memory: Memory) -> Inventory:
    """Return the pools of a cluster, and let the list stand for the creates that it shows."""
    began_at = ports.clock.now()
    pools = ports.pools.list(cluster)
    deployment = ports.settings.resource_labels.get(DEPLOYMENT, "")
    before = memory.nodes.get(cluster, {})
    inventory = take_inventory(pools, deployment, began_at, nodes_before=before)
    ports.budget.forget_listed(cluster, inventory)
    memory.inventories[cluster] = inventory
    return inventory


@dataclass(slots=True)
class Reads:
    """The reads of one look."""

    key: Key
    ports: Ports
    memory: Memory
    source: From
    began_at: float

    def begin_stop(self) -> Callable[[], list[StopAndCause]]:
        """Begin to read what the labels of our namespace and of the workload's forbid."""
        names = dict.fromkeys((self.ports.settings.own_namespace, self.key.namespace))
        stops = [self._begin_stop(name) for name in names]
        return lambda: [stop() for stop in stops]

    def _begin_stop(self, namespace: str) -> Callable[[], StopAndCause]:
        lists = self.source.lists
        stop = lists.stops.get(namespace) if lists else None
        free_at = self.memory.free_at.get((self.key.cluster, namespace), float("-inf"))
        if self.source.shares and 0 <= self.began_at - free_at <= SHARED_SECONDS:
            stop = Stop.NOTHING, ""
        if stop is not None:
            known = stop
            return lambda: known
        return self.ports.crew.fork(partial(self._read_stop, namespace))

    def _read_stop(self, namespace: str) -> StopAndCause:
        cluster, now = self.key.cluster, self.ports.clock.now()
        stop = read_stop(cluster, namespace, self.ports)
        if stop[0] == Stop.NOTHING:
            self.memory.free_at[cluster, namespace] = now
        return stop

    def begin_pools(self) -> Callable[[], Inventory]:
        """Begin to list the cluster's pools, unless this look rests on a list that was read."""
        seen = self.source.lists or self.source.again
        shared = self.memory.inventories.get(self.key.cluster)
        if seen:
            return lambda: seen.inventory
        if self.source.shares and shared and self._is_young(shared):
            self.began_at = shared.began_at
            return lambda: shared
        return self.ports.crew.fork(
            partial(list_inventory, self.key.cluster, self.ports, self.memory)
        )

    def _is_young(self, shared: Inventory) -> bool:
        """Return whether a list of another look is young, and began after our last act."""
        acted_at = self.memory.acted.get(self.key, float("-inf"))
        age = self.began_at - shared.began_at
        return 0 <= age <= SHARED_SECONDS and acted_at < shared.began_at

    def read_owner(self) -> tuple[WorkloadView | None, bool]:
        """Return the workload, and whether its presence or absence is known.

        Raises:
            Unavailable: the cluster gave no answer; a later delivery or tick asks again.
        """
        key, lists = self.key, self.source.lists
        try:
            listed = lists.workloads.get(key.workload) if lists else None
            workload = listed or self.ports.clusters[key.cluster].get_workload(*key.workload)
        except KindAbsent:
            return None, False
        return (workload if workload and key.uid in ("", workload.uid) else None), True

    def choose_mine(self, inventory: Inventory, workload: WorkloadView | None) -> list[NodePool]:
        """Return the pools of the workload; in a second look as they are now."""
        mine = [
            pool
            for pool in inventory.by_owner.get(self.key.workload, ())
            if self._is_owned(pool, workload)
        ]
        if self.source.again is None:
            return mine
        return [pool for pool in self._get_anew(mine) if self._is_owned(pool, workload)]

    def _get_anew(self, pools: list[NodePool]) -> list[NodePool]:
        """Return pools as GKE has them by name now; of very many those that the look is for."""
        few, named = len(pools) <= GETS_MAX, self.source.names
        fresh = [pool.name for pool in pools if few or pool.name in named]
        get = partial(self.ports.pools.get, self.key.cluster)
        answers = self.ports.crew.gather([partial(get, name) for name in fresh])
        now = dict(zip(fresh, answers, strict=True))
        return [pool for each in pools if (pool := now.get(each.name, each)) is not None]

    def _is_owned(self, pool: NodePool, workload: WorkloadView | None) -> bool:
        """Return whether a pool is the workload's; the Go program's name no UID."""
        owner, key = pool.owner, self.key
        if owner is None or owner.key != key.workload:
            return False
        if workload is not None:
            return owner.uid in ("", workload.uid)
        return owner.uid == key.uid or not key.uid

    def begin_nodes(self, names: list[str]) -> Callable[[], Mapping[str, Sequence[PoolNode]]]:
        """Begin to read the nodes of pools by pool; nothing is read if there is no pool."""
        lists = self.source.lists
        if lists or not names:
            return lambda: lists.nodes if lists else {}
        return self.ports.crew.fork(partial(self._read_nodes, names))

    def _read_nodes(self, names: list[str]) -> Mapping[str, Sequence[PoolNode]]:
        nodes: dict[str, list[PoolNode]] = defaultdict(list)
        for node in self.ports.clusters[self.key.cluster].list_nodes(names):
            nodes[node.pool].append(node)
        return nodes

    def read_pods(self, workload: WorkloadView | None) -> list[PodView]:
        """Return the accelerator pods that name the workload, and that have not ended."""
        pods: Iterable[PodView] = ()
        if self.source.lists is not None:
            pods = self.source.lists.pods.get(self.key.workload, ())
        elif workload is not None:
            pods = self.ports.clusters[self.key.cluster].list_workload_pods(workload)
        kind, uids = get_kind(self.key.kind), ("", workload.uid if workload else "")
        return [
            pod
            for pod in pods
            if counts(pod) and (workload is None or kind.find_owner_uid(pod) in uids)
        ]

    def add_disks(
        self, workload: WorkloadView | None, pods: Sequence[PodView]
    ) -> WorkloadView | None:
        """Return the workload with the disks of the claims that its pods name."""
        if workload is None or workload.deleting or workload.terminal:
            return workload
        find = partial(self.ports.clusters[self.key.cluster].find_disk, workload.namespace)
        claims = _list_claims(workload, pods)
        disks = self.ports.crew.gather([partial(find, claim) for claim in claims])
        present = tuple(disk for disk in disks if disk is not None)
        return dataclasses.replace(workload, disks=present) if present else workload

    def find_parent(self, workload: WorkloadView | None) -> Parent | None:
        """Return what keeps a live workload after its own end; a tick asks for it."""
        if self.source.lists is None or workload is None or workload.parent is None:
            return None
        return self.ports.clusters[self.key.cluster].get_parent(workload.parent)


def _list_claims(workload: WorkloadView, pods: Sequence[PodView]) -> list[str]:
    """Return the claims that the spec and the pods without a node name, each once."""
    waiting = [pod.template.volume_claims for pod in pods if not pod.node_name]
    named = [*list_volume_claims(workload), *(claim for claims in waiting for claim in claims)]
    return list(dict.fromkeys(named))[:CLAIMS_MAX]


def counts(pod: PodView) -> bool:
    """Return whether a pod wants accelerators and has not ended."""
    return pod.template.wants_accelerator and not pod.finished


def map_nodes(nodes: Mapping[str, Sequence[PoolNode]]) -> dict[str, str]:
    """Return the pool of each node by the node's name."""
    return {node.name: pool for pool, members in nodes.items() for node in members}


def find_user(pod: PodView) -> WorkloadName:
    """Return kind, namespace and name of a pod's workload; of a pod without one, its own."""
    kind = find_kind_of_pod(pod)
    if kind is None:
        return "Pod", pod.namespace, pod.name
    return kind.name, pod.namespace, kind.find_owner(pod)


MODES = {"active": Stop.NOTHING, "no-create": Stop.CREATES, "report-only": Stop.EVERYTHING}
_ORDER = list(Stop)


def read_stop(cluster: str, namespace: str, ports: Ports) -> StopAndCause:
    """Return what the label of one namespace forbids, and where it is.

    No answer and an unknown value forbid every act: a stop that is not understood must not be
    passed over. The same holds without our own namespace. A workload's may be gone with it, and
    its pools must go too.
    """
    try:
        seen = ports.clusters[cluster].get_namespace(namespace)
    except ProvisionerError as error:
        return Stop.EVERYTHING, f"namespace {namespace} could not be read: {error}"
    if seen is None:
        if namespace != ports.settings.own_namespace:
            return Stop.NOTHING, ""
        return Stop.EVERYTHING, f"namespace {namespace}, whose label may stop us, does not exist"
    value = seen.labels.get(labels.MODE)
    if value is None:
        opts_out = seen.labels.get(labels.DISABLE_AUTOPROVISIONING) == "true"
        text = f"namespace {namespace} opts out ({labels.DISABLE_AUTOPROVISIONING})"
        return (Stop.CREATES, text) if opts_out else (Stop.NOTHING, "")
    text = f"the label {labels.MODE}={value} of namespace {namespace}"
    if value not in MODES:
        return Stop.EVERYTHING, f"{text} has an unknown value; valid: {', '.join(MODES)}"
    return MODES[value], text


def find_strongest(stops: Iterable[StopAndCause]) -> StopAndCause:
    """Return the stop that forbids the most."""
    return max(stops, key=lambda each: _ORDER.index(each[0]))


def add_facts(look: Look, asks: Sequence[Ask], ports: Ports) -> Look:
    """Return the look with what its plan asked for, which is read side by side.

    The pods on nodes are read last, because a deletion rests on them.
    """
    if any(ask.fact == Fact.OPERATIONS for ask in asks):
        look = _add_operations(look, ports)
    machines = [ask.pool for ask in asks if ask.fact == Fact.MACHINES]
    if machines:
        look = _add_machines(look, machines, ports)
    used = [ask.pool for ask in asks if ask.fact == Fact.USERS]
    return _add_users(look, used, ports) if used else look


def list_operations(cluster: str, ports: Ports) -> Operations:
    """Return GKE's operations on pools with a name of ours."""
    return sort_operations(ports.pools.list_operations(cluster))


def _add_operations(look: Look, ports: Ports) -> Look:
    scene, uid = look.scene, look.workload.uid if look.workload else ""
    named = list_operations(look.key.cluster, ports)
    listed = look.inventory.pools
    records = read_records(look.key, uid, scene.needs, named, now=scene.now, listed=listed)
    changed = dataclasses.replace(scene, creations=records.creations, deletions=records.deletions)
    return dataclasses.replace(look, scene=changed)


def _add_machines(look: Look, names: Sequence[str], ports: Ports) -> Look:
    """Return the look with the words of GKE about pools; without an answer there is no word."""
    read = [partial(ports.pools.read_machines, look.pools[name]) for name in names]
    answers = dict(zip(names, ports.crew.run(read, seconds=READ_SECONDS), strict=True))
    machines, errors = _part(answers)
    pools = tuple(
        add_word(pool, machines.get(pool.name), look.scene.now) if pool.name in names else pool
        for pool in look.scene.pools
    )
    scene = dataclasses.replace(look.scene, pools=pools)
    return dataclasses.replace(look, scene=scene, errors=(*look.errors, *errors.values()))


def _part(answers: Mapping[str, T | Exception]) -> tuple[dict[str, T], dict[str, Exception]]:
    """Return what was read, and what could not be read."""
    errors = {key: each for key, each in answers.items() if isinstance(each, Exception)}
    read = {key: each for key, each in answers.items() if not isinstance(each, Exception)}
    return read, errors


def _add_users(look: Look, names: Sequence[str], ports: Ports) -> Look:
    """Return the look with the pods on the nodes of some pools."""
    began_at, own = ports.clock.now(), {pod.uid for pod in look.pods}
    strangers: list[Pod] = []
    takers: set[WorkloadName] = set()
    places: dict[str, str] = {}
    bound, errors = _read_users(look, names, ports)
    for pod, pool in bound:
        if pod.uid in own:
            places[pod.uid] = pool
        elif pod.chips:
            strangers.append(view_stranger(pod, pool))
            takers.add(pod.user)
    pools = tuple(
        # Nothing is done to a pool that may be in use.
        dataclasses.replace(pool, users_read=True, busy=pool.busy or pool.name in errors)
        if pool.name in names
        else pool
        for pool in look.scene.pools
    )
    scene = dataclasses.replace(
        look.scene,
        pools=pools,
        pods=(*_place_pods(look, places), *strangers),
        takers_served=are_served({*look.takers, *takers}, look.inventory),
    )
    return dataclasses.replace(
        look,
        scene=scene,
        takers=look.takers | takers,
        users_read_at=look.users_read_at or began_at,
        errors=(*look.errors, *errors.values()),
    )


def _place_pods(look: Look, places: Mapping[str, str]) -> Iterable[Pod]:
    """Return the pods of a scene; its own that were placed since they were listed hold their pool.

    Those of the workload come first, in the order in which they were listed.
    """
    own = len(look.wanted.pods)
    for view, pod in zip(look.pods[:own], look.scene.pods[:own], strict=True):
        late = view.uid in places and not pod.pool
        yield dataclasses.replace(pod, pool=places[view.uid], waits=False) if late else pod
    yield from look.scene.pods[own:]


def _read_users(
    look: Look, names: Sequence[str], ports: Ports
) -> tuple[list[tuple[BoundPod, str]], dict[str, Exception]]:
    """Return the unfinished pods on the nodes of some pools, each with its pool.

    Beside them is why those of a pool could not be read.
    """
    live = ports.clusters[look.key.cluster]
    places = {node.name: name for name in names for node in look.nodes.get(name, ())}
    reads = [partial(live.list_bound_pods, node) for node in places]
    answers = dict(zip(places, ports.crew.run(reads, seconds=READ_SECONDS), strict=True))
    pods, errors = _part(answers)
    pairs = [(pod, places[node]) for node, bound in pods.items() for pod in bound]
    return pairs, {places[node]: error for node, error in errors.items()}


def are_served(takers: Iterable[WorkloadName], inventory: Inventory) -> bool:
    """Return whether one of some workloads has a pool on its way."""
    return any(
        pool.status == PoolStatus.PROVISIONING
        for taker in takers
        for pool in inventory.by_owner.get(taker, ())
    )
