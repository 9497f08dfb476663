"""What one look reads of a workload: live, from the lists of a tick, or anew for a second look.

Within a look pools come before pods: a pool that is listed too early may only lead to one create
too few. What a plan asks for beside that is added later, and the pods on nodes come last.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain

from msgspec import Struct, structs

from shared.engine.budget import Inventory, Key, Operations, WorkloadName, count_chips, count_used
from shared.engine.kueue import read_standing
from shared.engine.look import (
    Look,
    Source,
    Standing,
    StopAndCause,
    has_lost_nodes,
    is_over,
    sort_operations,
    view,
    want_nothing,
)
from shared.engine.outside import Ports
from shared.kinds.table import get_kind
from shared.model import labels
from shared.model.errors import KindAbsent, ProvisionerError
from shared.model.names import parse_name
from shared.model.pools import UNDER_WAY, NodePool, PoolNode
from shared.model.workloads import Namespace, Parent, PodView, WorkloadView
from shared.needs.wanted import Wanted, list_wanted
from shared.needs.ways import list_volume_claims
from shared.plan.limits import Means
from shared.plan.scene import Ask, Fact, Scene, Stop

DELIVERY_SECONDS = 50.0
"""How long after its beginning a delivery begins an act; every request ends within 55 s."""
SHARED_SECONDS = 2.0
"""How old a list of pools may be that another look has read, and how long ago a namespace was seen
to have no stop; before a create only."""
GETS_MAX = 16  # a fresh look at more pools reads by name those only that it is for
CLAIMS_MAX = 20
UID_SECONDS = 60.0  # how long the UID of a cluster is not read again
KUBE_SYSTEM = "kube-system"
READ_SECONDS = 60.0  # how long the reads that a plan asks for may take together
MODES = {"active": Stop.NOTHING, "no-create": Stop.CREATES, "report-only": Stop.EVERYTHING}


def list_inventory(cluster: str, ports: Ports) -> Inventory:
    """Return the pools of a cluster, and let the list stand for the creates that it shows."""
    began_at, before = ports.clock.now(), ports.memory.nodes.get(cluster, {})
    own = ("", ports.settings.resource_labels.get(labels.DEPLOYMENT, ""))
    pools = ports.pools.list(cluster)
    by_owner: dict[WorkloadName, list[NodePool]] = defaultdict(list)
    chips, strangers = Counter[str](), defaultdict[str, list[int]](list)
    for pool in pools:
        if pool.owner is not None and pool.deployment in own:
            by_owner[pool.owner.key].append(pool)
            nodes = max(pool.node_count, before.get(pool.name, 0))
            chips[pool.owner.namespace] += count_chips(pool, nodes)
        elif name := parse_name(pool.name):
            strangers[name.hash].append(name.attempt)
    inventory = Inventory(
        began_at=began_at,
        pools={pool.name: pool for pool in pools},
        by_owner=by_owner,
        nodes_before=before,
        chips=chips,
        strangers=strangers,
        under_way=frozenset(pool.name for pool in pools if pool.status in UNDER_WAY),
        autoscaled=sum(pool.autoscaled for pool in pools),
    )
    ports.budget[cluster].forget_listed(inventory)
    ports.memory.inventories[cluster] = inventory
    return inventory


def take_look(key: Key, ports: Ports, source: Source) -> Look:
    """Return what a workload has and wants now."""
    lists, settings = source.lists, ports.settings
    reads = Reads(key, ports, source, ports.clock.now())
    stop, listing = reads.begin_stop(), reads.begin_pools()
    workload, is_known = reads.read_owner()
    standing, plain = Standing(), None
    if workload and ports.queues:
        standing = read_standing(key.cluster, workload, ports)
        if standing.owner:
            plain, workload = workload, standing.owner
    inventory = listing()
    pools = {pool.name: pool for pool in reads.choose_mine(inventory, workload)}
    nodes_listing = reads.begin_nodes(list(pools))
    pods = reads.read_pods(workload)
    workload = reads.add_disks(workload, pods)
    nodes, parent = nodes_listing(), reads.find_parent(workload) if lists else None
    if not (lists or source.again):
        inventory = count_used(inventory, pools.values(), nodes)
    room, operations = reads.count_room(inventory)
    now = ports.clock.now()
    wanted = reads.list_wanted(workload, pods, nodes, plain)
    stop_and_cause, refusals = stop(), ports.budget[key.cluster].list_refused(now)
    scene = Scene(
        now=now,
        needs=wanted.needs,
        over=is_over(workload),
        owner_known=is_known,
        queue=standing.queue,
        quota_lost_at=standing.lost_at,
        retried=standing.retried,
        part_seconds=standing.seconds,
        room=room.chips,
        slots=room.slots,
        stop=stop_and_cause[0],
        refused=frozenset(refusals),
        parent_over=bool(parent and parent.keeps),
        creation_seconds=settings.creation_seconds_max,
        grace_seconds=settings.grace_seconds,
    )
    look = Look(
        key=key,
        workload=workload,
        standing=standing,
        parent=parent,
        stop=stop_and_cause,
        inventory=inventory,
        pools=pools,
        nodes=nodes,
        missing_since=reads.note_missing(pools, nodes, now),
        spare=ports.memory.spare.get(key.cluster, frozenset()),
        pods=pods,
        wanted=wanted,
        refusals=refusals,
        operations=operations,
        users=reads.list_users(pools, pods),
        scene=scene,
        began_at=reads.began_at,
        until=source.until or reads.began_at + DELIVERY_SECONDS,
    )
    return view(look)


class Reads(Struct):
    """The reads of one look."""

    key: Key
    ports: Ports
    source: Source
    began_at: float

    def begin_stop(self) -> Callable[[], StopAndCause]:
        """Begin to read what the labels of our namespace and of the workload's forbid."""
        # The strictest is the last one by the alphabet.
        lists, own = self.source.lists, self.ports.settings.own_namespace
        names = list(dict.fromkeys((own, self.key.namespace)))
        if lists and lists.stops:
            return lambda: max(lists.stops[name] for name in names)
        shares = self.ports.adds is not None and self.source.again is None
        seconds = SHARED_SECONDS if shares else 0.0
        reads = [partial(read_stop, self.key.cluster, name, self.ports, seconds) for name in names]
        return self.ports.crew.fork(lambda: max(read() for read in reads))

    def begin_pools(self) -> Callable[[], Inventory]:
        """Begin to list the cluster's pools, unless this look rests on a list that was read."""
        lists, again = self.source.lists, self.source.again
        if lists:
            self.began_at = lists.began_at
            return lambda: lists.inventory
        if again:
            return lambda: again.inventory
        shared = self.ports.memory.inventories.get(self.key.cluster)
        if self.ports.adds and shared and self._is_young(shared):
            self.began_at = shared.began_at
            return lambda: shared
        return self.ports.crew.fork(partial(list_inventory, self.key.cluster, self.ports))

    def _is_young(self, shared: Inventory) -> bool:
        """Return whether a list of another look is young, and began after our last act."""
        acted_at = self.ports.memory.acted.get(self.key, float("-inf"))
        return acted_at < shared.began_at <= self.began_at <= shared.began_at + SHARED_SECONDS

    def read_owner(self) -> tuple[WorkloadView | None, bool]:
        """Return the workload, and whether its presence or absence is known."""
        key, lists = self.key, self.source.lists
        try:
            listed = lists.workloads.get(key.workload) if lists else None
            workload = listed or self.ports.clusters[key.cluster].get_workload(*key.workload)
        except KindAbsent:
            return None, False
        return (workload if workload and key.uid in ("", workload.uid) else None), True

    def choose_mine(self, inventory: Inventory, workload: WorkloadView | None) -> list[NodePool]:
        """Return the pools of the workload; in a second look as they are now."""
        listed = inventory.by_owner.get(self.key.workload, ())
        pools = self._get_anew(listed) if self.source.again else listed
        return [pool for pool in pools if self._is_owned(pool, workload)]

    def _get_anew(self, pools: Sequence[NodePool]) -> list[NodePool]:
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
        lists, live = self.source.lists, self.ports.clusters[self.key.cluster]
        if lists:
            return lambda: {name: lists.nodes.get(name, ()) for name in names}
        if not names:
            return dict
        return self.ports.crew.fork(lambda: sort_nodes(live.list_nodes(names)))

    def read_pods(self, workload: WorkloadView | None) -> list[PodView]:
        """Return the accelerator pods that name the workload, and that have not ended."""
        pods: Iterable[PodView] = ()
        if self.source.lists is not None:
            pods = self.source.lists.pods.get(self.key.workload, ())
        elif workload is not None:
            pods = self.ports.clusters[self.key.cluster].list_workload_pods(workload)
        kind, uids = get_kind(self.key.kind), ("", workload.uid if workload else "")
        lives = (pod for pod in pods if pod.template.wants_accelerator and not pod.finished)
        return [pod for pod in lives if workload is None or kind.find_owner_uid(pod) in uids]

    def add_disks(
        self, workload: WorkloadView | None, pods: Sequence[PodView]
    ) -> WorkloadView | None:
        """Return the workload with the disks of the claims that its spec and waiting pods name."""
        # While no pod waits, the second plan, which reads the disks, is enough to take away by.
        rests = self.source.lists and self.ports.takes and not any(pod.waits for pod in pods)
        if workload is None or is_over(workload) or rests:
            return workload
        find = partial(self.ports.clusters[self.key.cluster].find_disk, workload.namespace)
        claims = _list_claims(workload, pods)
        if not claims:
            return workload
        disks = self.ports.crew.gather([partial(find, claim) for claim in claims])
        return structs.replace(workload, disks=tuple(filter(None, disks)))

    def find_parent(self, workload: WorkloadView | None) -> Parent | None:
        """Return what keeps a live workload after its own end; a tick asks for it."""
        if workload is None or workload.parent is None:
            return None
        return self.ports.clusters[self.key.cluster].get_parent(workload.parent)

    def count_room(self, inventory: Inventory) -> tuple[Means, Operations | None]:
        """Return what limits and slots leave, and GKE's operations, as far as they are read."""
        books, cluster = self.ports.budget[self.key.cluster], self.key.cluster
        before = self.source.lists or self.source.again
        operations = before.operations if before else None
        if self.ports.adds and operations is None and not books.begun:
            operations = list_operations(cluster, self.ports)
        return books.count_room(self.key, inventory, self.ports.clock.now(), operations), operations

    def note_missing(
        self, pools: Mapping[str, NodePool], nodes: Mapping[str, Sequence[PoolNode]], now: float
    ) -> dict[str, float]:
        """Return since when nodes of pools are missing that existed."""
        memory, cluster = self.ports.memory.missing_since, self.key.cluster
        missing: dict[str, float] = {}
        for name, pool in pools.items():
            if has_lost_nodes(pool, nodes.get(name, ())):
                missing[name] = memory.setdefault((cluster, name), now)
            else:
                memory.pop((cluster, name), None)
        return missing

    def list_wanted(
        self,
        workload: WorkloadView | None,
        pods: list[PodView],
        nodes: Mapping[str, Sequence[PoolNode]],
        plain: WorkloadView | None,
    ) -> Wanted:
        """Return what the workload needs: as it was found before, if it rests on the same.

        `plain` is the spec as its author wrote it, without Kueue's flavors.
        """
        pools_of = self.source.lists.pools_of if self.source.lists else map_nodes(nodes)
        if workload is None or is_over(workload):
            return want_nothing(self.key, workload, pods, pools_of)
        rests_on = workload, plain, pods, [pools_of.get(pod.node_name, "") for pod in pods]
        memory, key, settings = self.ports.memory.wanted, self.key, self.ports.settings
        before = memory.get(key)
        if before is None or before[0] != rests_on:
            wanted = list_wanted(key.cluster, workload, pods, pools_of, settings)
            if plain and wanted.refused:
                alone = list_wanted(key.cluster, plain, (), {}, settings)
                wanted = wanted if alone.refused else blame_flavor(wanted)
            before = memory[key] = rests_on, wanted
        return before[1]

    def list_users(
        self, pools: Iterable[str], pods: Sequence[PodView]
    ) -> dict[str, Sequence[PodView]]:
        """Return the pods of others on pools, as far as they are read, or the look before has them.

        A second look reads those anew that it is for.
        """
        before, own = self.source.lists or self.source.again, {pod.uid for pod in pods}
        if before is None:
            return {}
        return {
            name: [pod for pod in before.users.get(name, ()) if pod.uid not in own]
            for name in pools
            if name not in self.source.names
        }


def blame_flavor(wanted: Wanted) -> Wanted:
    """Return what is wanted where the spec alone could be served, so that a flavor is to blame."""
    needs = (structs.replace(need, of_flavor=need.never is not None) for need in wanted.needs)
    return structs.replace(wanted, needs=tuple(needs))


def _list_claims(workload: WorkloadView, pods: Sequence[PodView]) -> list[str]:
    """Return the claims that the spec and the pods without a node name, each once."""
    waiting = (pod.template.volume_claims for pod in pods if not pod.node_name)
    return list(dict.fromkeys(chain(list_volume_claims(workload), *waiting)))[:CLAIMS_MAX]


def read_namespace(cluster: str, name: str, ports: Ports, seconds: float) -> Namespace | None:
    """Return a namespace as it was so many seconds ago, or later."""
    now, place = ports.clock.now(), (cluster, name)
    namespace, read_at = ports.memory.namespaces.get(place, (None, float("-inf")))
    if not 0 <= now - read_at < seconds:
        namespace = ports.clusters[cluster].get_namespace(name)
        ports.memory.namespaces[place] = namespace, now
    return namespace


def read_stop(cluster: str, namespace: str, ports: Ports, seconds: float = 0.0) -> StopAndCause:
    """Return what the label of one namespace forbids, and where it is; a stop as it is now.

    No answer and an unknown value forbid every act: a stop that is not understood must not be
    passed over. The same holds without our own namespace. A workload's may be gone with it, and
    its pools must go too.
    """
    try:
        view = read_namespace(cluster, namespace, ports, seconds)
    except ProvisionerError as error:
        return Stop.EVERYTHING, f"namespace {namespace} could not be read: {error}"
    if view is None and namespace == ports.settings.own_namespace:
        return Stop.EVERYTHING, f"namespace {namespace}, whose label may stop us, does not exist"
    marks = view.labels if view else {}
    value, text = marks.get(labels.MODE, "active"), ""
    if labels.MODE in marks:
        text = f"the label {labels.MODE}={value} of namespace {namespace}"
    elif marks.get(labels.DISABLE_AUTOPROVISIONING) == "true":
        value = "no-create"
        text = f"namespace {namespace} opts out ({labels.DISABLE_AUTOPROVISIONING})"
    if value != "active":
        ports.memory.namespaces.pop((cluster, namespace), None)  # its end is seen at once
    if value not in MODES:
        return Stop.EVERYTHING, f"{text} has an unknown value; valid: {', '.join(MODES)}"
    return MODES[value], text


def list_operations(cluster: str, ports: Ports) -> Operations:
    """Return GKE's operations on pools with a name of ours."""
    return sort_operations(ports.pools.list_operations(cluster))


def add_facts(look: Look, asks: Sequence[Ask], ports: Ports) -> Look:
    """Return the look with what its plan asked for; the pods on nodes are read last."""
    pools = {fact: [ask.pool for ask in asks if ask.fact == fact] for fact in Fact}
    if pools[Fact.OPERATIONS]:
        operations = list_operations(look.key.cluster, ports)
        look = structs.replace(look, operations=operations)
    if pools[Fact.MACHINES]:
        method = ports.pools.read_machines
        tasks = {name: partial(method, look.pools[name]) for name in pools[Fact.MACHINES]}
        readings, errors = ports.crew.run_each(tasks, seconds=READ_SECONDS)
        machines = {**look.machines, **dict.fromkeys(tasks), **readings}
        look = structs.replace(look, machines=machines, errors=(*look.errors, *errors.values()))
    if pools[Fact.USERS]:
        look = _add_users(look, pools[Fact.USERS], ports)
    return view(look)


def _add_users(look: Look, names: Sequence[str], ports: Ports) -> Look:
    """Return the look with the unfinished pods on the nodes of some pools."""
    began_at, live = ports.clock.now(), ports.clusters[look.key.cluster]
    pools = map_nodes({name: look.nodes.get(name, ()) for name in names})
    bound, errors = ports.crew.run_each(
        {node: partial(live.list_bound_pods, node) for node in pools}, seconds=READ_SECONDS
    )
    own, places = {pod.uid for pod in look.pods}, dict(look.places)
    users: dict[str, list[PodView]] = {name: [] for name in names}
    for pod in chain.from_iterable(bound.values()):
        pool = places[pod.uid] = pools.get(pod.node_name, names[0])  # if it names none, the first
        if pod.template.units and pod.uid not in own:
            users[pool].append(pod)
    return structs.replace(
        look,
        users={**look.users, **users},
        places=places,
        unread=look.unread.union(pools[node] for node in errors),
        users_read_at=look.users_read_at or began_at,
        errors=(*look.errors, *errors.values()),
    )


def read_cluster_uid(cluster: str, ports: Ports) -> str:
    """Return the UID of the namespace ``kube-system``; empty if there is none."""
    namespace = read_namespace(cluster, KUBE_SYSTEM, ports, UID_SECONDS)
    return namespace.uid if namespace else ""


def sort_nodes(nodes: Iterable[PoolNode]) -> dict[str, list[PoolNode]]:
    """Return nodes by their pool."""
    by_pool: dict[str, list[PoolNode]] = defaultdict(list)
    for node in nodes:
        by_pool[node.pool].append(node)
    return by_pool


def map_nodes(nodes: Mapping[str, Sequence[PoolNode]]) -> dict[str, str]:
    """Return the pool of each node by the node's name."""
    return {node.name: pool for pool, members in nodes.items() for node in members}
