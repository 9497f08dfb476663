"""What one look reads of a workload: live, from the lists of a tick, or anew for a second look.

Within a look pools come before pods: a pool that is listed too early may only lead to one create
too few. What a plan asks for beside that is added later, and the pods on nodes come last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain

from msgspec import structs

from shared.engine.budget import Inventory, Key, Nodes, Operations, WorkloadName
from shared.engine.kueue import read_standing
from shared.engine.look import Lists, Look, StopAndCause, find_user, has_lost_nodes, is_over
from shared.engine.outside import Ports
from shared.kinds.table import get_kind
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import KindAbsent, ProvisionerError
from shared.model.names import Owner, ParsedName, parse_name
from shared.model.pools import UNDER_WAY, NodePool, Operation, PoolNode
from shared.model.workloads import Namespace, PodView, WorkloadView
from shared.needs.wanted import NO_NEED, Wanted, list_wanted, view_pod
from shared.needs.ways import list_volume_claims
from shared.plan.scene import Ask, Fact, Stop
from shared.settings import Settings

DELIVERY_SECONDS, ACT_SECONDS = 50.0, 40.0
"""How long after its beginning a delivery, and a tick, begins an act; each ends within 55 s."""
SHARED_SECONDS = 2.0
"""How old a list of pools may be that another look has read, and how long ago a namespace was seen
to have no stop; before a create only."""
GETS_MAX = 16  # a fresh look at more pools reads by name those only that it is for
CLAIMS_MAX = 20
UID_SECONDS = 60.0  # how long the UID of a cluster is not read again
KUBE_SYSTEM = "kube-system"
MODES = {"active": Stop.NOTHING, "no-create": Stop.CREATES, "report-only": Stop.EVERYTHING}


def find_owner(pool: NodePool, settings: Settings) -> Owner | None:
    """Return the owner of a pool; None for one that is not ours, or of another deployment."""
    own = ("", settings.resource_labels.get(labels.DEPLOYMENT, ""))
    return pool.owner if pool.deployment in own else None


def list_inventory(cluster: str, ports: Ports) -> Inventory:
    """Return the pools of a cluster, and let the list stand for the creates that it shows."""
    began_at, pools = ports.clock.now(), ports.pools.list(cluster)
    by_owner: dict[WorkloadName, list[NodePool]] = defaultdict(list)
    strangers: dict[str, list[int]] = defaultdict(list)
    for pool in pools:
        owner = find_owner(pool, ports.settings)
        if owner is not None:
            by_owner[owner.key].append(pool)
        elif name := parse_name(pool.name):
            strangers[name.hash].append(name.attempt)
    inventory = Inventory(
        began_at=began_at,
        pools={pool.name: pool for pool in pools},
        by_owner=by_owner,
        strangers=strangers,
        under_way=frozenset(pool.name for pool in pools if pool.status in UNDER_WAY),
        autoscaled=sum(pool.autoscaled for pool in pools),
    )
    ports.books[cluster].note_list(inventory)
    return inventory


def read_lists(cluster: str, ports: Ports) -> Lists:
    """Return what a tick reads once for all of its looks: pools, then pods, then their nodes."""
    began_at, live = ports.clock.now(), ports.clusters[cluster]
    inventory = list_inventory(cluster, ports)
    listed = list(live.list_accelerator_pods())
    rests = any(pod.waits for pod in listed) or ports.queues  # a create rests on GKE's operations
    operations = list_operations(cluster, ports) if rests else None
    nodes = sort_nodes(live.list_nodes())
    ports.books[cluster].note_nodes(inventory.pools, nodes)
    pools_of = map_nodes(nodes)
    pods: dict[WorkloadName, list[PodView]] = defaultdict(list)
    users: dict[str, list[PodView]] = {name: [] for name in inventory.pools}
    for pod in listed:
        pods[find_user(pod)].append(pod)
        if pools_of.get(pod.node_name) in users:
            users[pools_of[pod.node_name]].append(pod)
    return Lists(
        cluster=cluster,
        whole=True,
        inventory=inventory,
        nodes=nodes,
        pods=pods,
        users=users,
        operations=operations,
        began_at=began_at,
        until=began_at + ACT_SECONDS,
    )


def take_look(key: Key, ports: Ports, lists: Lists) -> Look:
    """Return what a workload has and wants now."""
    began_at = ports.clock.now()
    look = Look(key=key, until=lists.until or began_at + DELIVERY_SECONDS)
    stop, listing = begin_stop(key, ports, lists), begin_list(key, ports, lists)
    look.workload, look.is_known = read_owner(key, ports, lists)
    if look.workload and ports.queues:
        look.standing = read_standing(key.cluster, look.workload, ports)
    if look.standing.owner:
        look.plain, look.workload = look.workload, look.standing.owner
    look.inventory = listing()
    look.began_at = began_at if lists.names else min(began_at, look.inventory.began_at)
    look.pools = choose_mine(look, ports, lists)
    nodes = begin_nodes(look, ports, lists)
    look.pods = read_pods(look, ports, lists)
    look.workload = add_disks(look, ports, lists)
    if look.workload and look.workload.parent:
        look.parent_keeps = ports.clusters[key.cluster].explain_parent(look.workload.parent)
    look.nodes, look.stop, look.now = nodes(), stop(), ports.clock.now()
    if not lists.whole:
        ports.books[key.cluster].note_nodes(look.pools, look.nodes)
    add_before(look, ports, lists)
    look.wanted = recall_wanted(look, ports)
    return look


def begin_stop(key: Key, ports: Ports, lists: Lists) -> Callable[[], StopAndCause]:
    """Begin to read what the labels of our namespace and of the workload's forbid."""
    names = {ports.settings.own_namespace, key.namespace}
    if lists.stops:
        return lambda: max(lists.stops[name] for name in names)
    seconds = SHARED_SECONDS if ports.adds and not lists.names else 0.0
    reads = [partial(read_stop, key.cluster, name, ports, seconds) for name in sorted(names)]
    # The strictest is the last one by the alphabet.
    return ports.crew.fork(lambda: max(read() for read in reads))


def begin_list(key: Key, ports: Ports, lists: Lists) -> Callable[[], Inventory]:
    """Begin to list the cluster's pools, unless there is a list that this look may rest on.

    That of another look must be young, and must have begun after our last act and the last end.
    """
    books, now = ports.books[key.cluster], ports.clock.now()
    if lists.inventory.began_at:
        return lambda: lists.inventory
    shared, changed_at = books.inventory, max(books.ended_at, books.acted.get(key, 0.0))
    is_young = changed_at < shared.began_at <= now <= shared.began_at + SHARED_SECONDS
    if ports.adds and is_young:
        return lambda: shared
    return ports.crew.fork(partial(list_inventory, key.cluster, ports))


def read_owner(key: Key, ports: Ports, lists: Lists) -> tuple[WorkloadView | None, bool]:
    """Return the workload, and whether its presence or absence is known."""
    try:
        listed = lists.workloads.get(key.workload)
        workload = listed or ports.clusters[key.cluster].get_workload(*key.workload)
    except KindAbsent:
        return None, False
    return (workload if workload and key.uid in ("", workload.uid) else None), True


def choose_mine(look: Look, ports: Ports, lists: Lists) -> dict[str, NodePool]:
    """Return the pools of the workload; in a second look, unless it lists, as GKE has them now.

    Of very many it gets those by name that it is for.
    """
    listed = {pool.name: pool for pool in look.inventory.by_owner.get(look.key.workload, ())}
    pools: dict[str, NodePool | None] = dict(listed)
    if lists.names and lists.inventory.began_at:
        fresh = list(pools if len(pools) <= GETS_MAX else pools.keys() & lists.names)
        gets = [partial(ports.pools.get, look.key.cluster, name) for name in fresh]
        pools |= zip(fresh, ports.crew.gather(gets), strict=True)
    settings = ports.settings
    return {name: pool for name, pool in pools.items() if pool and is_owned(pool, look, settings)}


def is_owned(pool: NodePool, look: Look, settings: Settings) -> bool:
    """Return whether a pool is the workload's; the Go program's name no UID."""
    owner, key = find_owner(pool, settings), look.key
    if owner is None or owner.key != key.workload:
        return False
    if look.workload is not None:
        return owner.uid in ("", look.workload.uid)
    return owner.uid == key.uid or not key.uid


def begin_nodes(look: Look, ports: Ports, lists: Lists) -> Callable[[], Nodes]:
    """Begin to read the nodes of the pools; nothing is read if there is no pool."""
    live, names = ports.clusters[look.key.cluster], list(look.pools)
    if lists.whole:
        return lambda: {name: lists.nodes.get(name, ()) for name in names}
    return ports.crew.fork(lambda: sort_nodes(live.list_nodes(names))) if names else dict


def read_pods(look: Look, ports: Ports, lists: Lists) -> list[PodView]:
    """Return the accelerator pods that name the workload, and that have not ended."""
    pods: Iterable[PodView] = ()
    if lists.whole:
        pods = lists.pods.get(look.key.workload, ())
    elif look.workload is not None:
        pods = ports.clusters[look.key.cluster].list_workload_pods(look.workload)
    kind, uids = get_kind(look.key.kind), ("", look.uid)
    lives = (pod for pod in pods if pod.template.wants_accelerator and not pod.finished)
    return [pod for pod in lives if look.workload is None or kind.find_owner_uid(pod) in uids]


def add_disks(look: Look, ports: Ports, lists: Lists) -> WorkloadView | None:
    """Return the workload with the disks of the claims that its spec and waiting pods name."""
    workload = look.workload
    # While no pod waits, the second plan, which reads the disks, is enough to take away by.
    rests = lists.whole and ports.takes and not any(pod.waits for pod in look.pods)
    if workload is None or is_over(workload) or rests:
        return workload
    waiting = (pod.template.volume_claims for pod in look.pods if not pod.node_name)
    claims = list(dict.fromkeys(chain(list_volume_claims(workload), *waiting)))[:CLAIMS_MAX]
    find = partial(ports.clusters[look.key.cluster].find_disk, workload.namespace)
    disks = ports.crew.gather([partial(find, claim) for claim in claims])
    return structs.replace(workload, disks=tuple(filter(None, disks)))


def add_before(look: Look, ports: Ports, lists: Lists) -> None:
    """Add what was read before this look, and what the process has counted and remembers."""
    books, own = ports.books[look.key.cluster], {pod.uid for pod in look.pods}
    look.operations = lists.operations
    for name in (look.pools.keys() & lists.users) - lists.names:
        look.users[name] = [pod for pod in lists.users[name] if pod.uid not in own]
    if look.operations is None and not books.begun:
        look.operations = list_operations(look.key.cluster, ports)
    for name, pool in look.pools.items():
        if has_lost_nodes(pool, look.nodes.get(name, ())):
            look.missing_since[name] = books.missing_since.setdefault(name, look.now)
        else:
            books.missing_since.pop(name, None)
    look.spare, look.refusals = books.spare, books.list_refused(look.now)
    look.room = books.count_room(look.key, look.now, look.operations)


def recall_wanted(look: Look, ports: Ports) -> Wanted:
    """Return what the workload needs: as it was found before, if it rests on the same."""
    key, workload, pods, settings = look.key, look.workload, look.pods, ports.settings
    pools_of = map_nodes(look.nodes)
    if workload is None or is_over(workload):
        return want_nothing(look, pools_of)
    rests_on = workload, look.plain, pods, [pools_of.get(pod.node_name, "") for pod in pods]
    memory = ports.books[key.cluster].wanted
    before = memory.get(key)
    if before is None or before[0] != rests_on:
        wanted = list_wanted(key.cluster, workload, pods, pools_of, settings)
        plain = look.plain if wanted.refused else None
        if plain and not list_wanted(key.cluster, plain, (), {}, settings).refused:
            # The spec alone could be served, so a flavor is to blame.
            needs = [structs.replace(need, of_flavor=bool(need.never)) for need in wanted.needs]
            wanted = structs.replace(wanted, needs=tuple(needs))
        before = memory[key] = rests_on, wanted
    return before[1]


def want_nothing(look: Look, pools_of: Mapping[str, str]) -> Wanted:
    """Return what a workload wants that is over or gone: each pod holds its pool until it ends."""
    text = f"the labels of the pod name {look.key}, which the cluster does not know"
    stray = Decision(Verdict.REFUSE, Reason.OWNER_KIND_UNKNOWN, text)
    strays = [] if look.workload else [pod for pod in look.pods if not pod.node_name]
    places = [pools_of.get(pod.node_name, pod.node_name) for pod in look.pods]
    return Wanted(
        pods=tuple(map(partial(view_pod, key=NO_NEED), look.pods, places)),
        refusals=tuple((pod, stray) for pod in strays),
    )


def read_namespace(cluster: str, name: str, ports: Ports, seconds: float) -> Namespace | None:
    """Return a namespace as it was so many seconds ago, or later."""
    now, namespaces = ports.clock.now(), ports.books[cluster].namespaces
    namespace, read_at = namespaces.get(name, (None, float("-inf")))
    if not 0 <= now - read_at < seconds:
        namespace = ports.clusters[cluster].get_namespace(name)
        namespaces[name] = namespace, now
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
    stop = judge_labels(namespace, view.labels if view else {})
    if stop[0]:
        ports.books[cluster].namespaces.pop(namespace, None)  # its end is seen at once
    return stop


def judge_labels(namespace: str, marks: Mapping[str, str]) -> StopAndCause:
    """Return what the labels of a namespace forbid."""
    value, text = marks.get(labels.MODE, "active"), ""
    if labels.MODE in marks:
        text = f"the label {labels.MODE}={value} of namespace {namespace}"
    elif marks.get(labels.DISABLE_AUTOPROVISIONING) == "true":
        value = "no-create"
        text = f"namespace {namespace} opts out ({labels.DISABLE_AUTOPROVISIONING})"
    if value not in MODES:
        return Stop.EVERYTHING, f"{text} has an unknown value; valid: {', '.join(MODES)}"
    return MODES[value], text


def list_operations(cluster: str, ports: Ports) -> Operations:
    """Return GKE's operations on pools with a name of ours by the hash in that name."""
    by_hash: dict[str, list[tuple[ParsedName, Operation]]] = defaultdict(list)
    for each in ports.pools.list_operations(cluster):
        name = parse_name(each.pool)
        if name is not None:
            by_hash[name.hash].append((name, each))
    return by_hash


def add_facts(look: Look, asks: Sequence[Ask], ports: Ports) -> None:
    """Add to a look what its plan asked for; the pods on nodes are read last."""
    pools = {fact: [ask.pool for ask in asks if ask.fact == fact] for fact in Fact}
    if pools[Fact.OPERATIONS]:
        look.operations = list_operations(look.key.cluster, ports)
    if pools[Fact.MACHINES]:
        method = ports.pools.read_machines
        tasks = {name: partial(method, look.pools[name]) for name in pools[Fact.MACHINES]}
        readings, errors = ports.crew.run_each(tasks)
        look.machines |= dict.fromkeys(tasks) | readings
        look.errors += errors.values()
    if pools[Fact.USERS]:
        _add_users(look, pools[Fact.USERS], ports)


def _add_users(look: Look, names: Sequence[str], ports: Ports) -> None:
    """Add the unfinished pods on the nodes of some pools."""
    look.users_read_at = look.users_read_at or ports.clock.now()
    live = ports.clusters[look.key.cluster]
    pools = map_nodes({name: look.nodes.get(name, ()) for name in names})
    bound, errors = ports.crew.run_each(
        {node: partial(live.list_bound_pods, node) for node in pools}
    )
    own = {pod.uid for pod in look.pods}
    users: dict[str, list[PodView]] = {name: [] for name in names}
    for pod in chain.from_iterable(bound.values()):
        pool = look.places[pod.uid] = pools.get(pod.node_name, names[0])  # of no node: the first
        if pod.template.units and pod.uid not in own:
            users[pool].append(pod)
    look.users |= users
    look.unread |= {pools[node] for node in errors}
    look.errors += errors.values()


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


def map_nodes(nodes: Nodes) -> dict[str, str]:
    """Return the pool of each node by the node's name."""
    return {node.name: pool for pool, members in nodes.items() for node in members}
