"""The only way: key, look, plan, act. A message, an operation and a tick all come here.

Each act compares the age of its look right before its call. Pools that are created, and maxima that
are raised, are first counted against limits and slots. A refusal is a fact of the next look.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import partial

from msgspec import Struct, structs

from shared.engine.budget import REFUSALS, Books, Entry, Key
from shared.engine.look import Lists, Look, Source, is_over
from shared.engine.outside import Ports
from shared.engine.reads import add_facts, read_cluster_uid, take_look
from shared.engine.tell import (
    Outcome,
    claim_slot,
    describe_act,
    explain_answer,
    find_demand,
    name_pool,
    note,
)
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import (
    AlreadyExists,
    Broken,
    Busy,
    Denied,
    InvalidRequest,
    NoCapacity,
    NoPlace,
    OldLook,
    OutOfTime,
    ProvisionerError,
    Rejected,
    Throttled,
)
from shared.model.failures import decide_gke_answer
from shared.model.names import Slot
from shared.model.pools import NodePool, PoolStatus
from shared.needs.nodepool import build_body
from shared.plan.counting import Census
from shared.plan.plan import make_plan
from shared.plan.scene import Act, Answer, Plan, Verb

ROUNDS_MAX = 4
POOLS_PER_LOOK, NODES_PER_LOOK = 16, 128
"""So many pools and nodes one fresh look may serve for what takes away; one pool of any size."""
LOOKS_MAX = 3  # how often a pool is looked at whose looks took too long
LISTS_SECONDS = 5.0  # how old a tick's lists may be when a create rests on them alone
ACT_SECONDS = 45.0

LOOK_SECONDS = 10.0  # how old a look may be when an act rests on it; most take under a second
REFUSED = (Busy, Denied, InvalidRequest, NoCapacity)
_DONE = {Verb.CREATE: "created", Verb.DELETE: "deleted"}


class Role(StrEnum):
    """Which of the two functions acts."""

    PROVISION = "provision"
    COLLECT = "collect"


def reconcile(key: Key, role: Role, ports: Ports, lists: Lists | None = None) -> Run:
    """Look at a workload, plan, do the acts of one function, and return what came of them."""
    look, plan = plan_for(key, ports, Source(lists=lists, until=lists.until if lists else None))
    run = Run(key, ports, ports.budget[key.cluster], look, plan)
    if role == Role.PROVISION:
        run.add()
    else:
        run.take_away()
    return run


def plan_for(key: Key, ports: Ports, source: Source, look: Look | None = None) -> tuple[Look, Plan]:
    """Return a look, a new one if there is none, and the plan; a kind of fact is asked for once."""
    look = look or take_look(key, ports, source)
    if key.kind not in ports.settings.kinds:
        return look, Plan(answers=(Answer(Reason.KIND_NOT_SERVED),))
    for _ in range(ROUNDS_MAX):
        plan = make_plan(look.scene)
        if not plan.asks:
            return look, plan
        look = add_facts(look, plan.asks, ports)
    raise Broken(f"the plan for {key} asked for more rounds than it may")


class Run(Struct):
    """The acts of one function for one workload."""

    key: Key
    ports: Ports
    books: Books
    look: Look  # the last one, with its plan
    plan: Plan
    done: list[Outcome] = []  # what came of the acts
    created: list[Act] = []  # the creates among them that GKE accepted
    errors: list[Exception] = []

    def add(self) -> None:
        """Do what adds. After a refusal at once the next way of the same slot follows."""
        if self.look.scene.queue:
            self._hold_rest(self.plan.adds)
        if self.plan.adds and self.ports.clock.now() - self.look.began_at > LISTS_SECONDS:
            self._look_anew()  # the lists of a tick are old
        acts, looks = list(self.plan.adds), 0
        while acts:
            late, refused = self._send(self._take_room(self._order(acts)), self.look)
            self.ports.memory.acted[self.key] = self.ports.clock.now()
            looks += bool(late)
            if looks == LOOKS_MAX:
                self._tell_late(late)
                break
            acts = self._plan_again([*late, *refused], fresh=bool(late))
        if self.look.scene.queue:
            self._hold_rest(self.created)

    def _plan_again(self, acts: Sequence[Act], *, fresh: bool) -> list[Act]:
        """Return what follows in the places of acts that were not done.

        Where GKE has answered at once, only its refusals are new, so the look serves once more.
        """
        if not acts:
            return []
        if fresh:
            self._look_anew()
        else:
            refusals = self.books.list_refused(self.ports.clock.now())
            scene = structs.replace(self.look.scene, refused=frozenset(refusals))
            look = structs.replace(self.look, scene=scene, refusals=refusals)
            self.look, self.plan = plan_for(self.key, self.ports, Source(), look)
        again = {_place(act) for act in acts}
        return [act for act in self.plan.adds if _place(act) in again]

    def _hold_rest(self, acts: Sequence[Act]) -> None:
        """Keep room for what a gang that began lacks beside what is sent: no other takes it."""
        scene, lacking = self.look.scene, Counter[str]()
        if acts or scene.pools:
            lacking.update(want.need.key for want in Census(scene).demanded.unserved)
            lacking.subtract(act.need for act in acts)
        chips = (max(0, lacking[need.key]) * need.hosts * need.chips for need in scene.needs)
        self.books.hold(self.key, sum(chips), self.ports.clock.now())

    def _look_anew(self) -> None:
        source = Source(until=self.look.until)
        self.look, self.plan = plan_for(self.key, self.ports, source)

    def _order(self, acts: Sequence[Act]) -> list[Order]:
        """Return what is to be sent; one that GKE would not accept is told."""
        orders: list[Order] = []
        for act in acts:
            try:
                orders.append(order(act, self.look, self.ports))
            except Rejected as error:
                self.done.append(note(error.decision, self.look, pool=name_pool(act, self.look)))
        return orders

    def _take_room(self, orders: list[Order]) -> list[Order]:
        """Return what has room, and write it down; of a gang all that it lacks, or none."""
        affordable: list[Order] = []
        for part in [orders] if self.look.scene.queue else [[each] for each in orders]:
            entries, now = [each.entry for each in part if each.entry], self.ports.clock.now()
            reason = self.books.take(self.key, entries, self.look.inventory, now)
            if reason is None:
                affordable += part
            else:
                self.done += [explain_rest(each, reason, self.look) for each in part]
        return affordable

    def take_away(self) -> None:
        """Do what takes away, as far as a second plan from a fresh look has it too."""
        for part in _cut(self.plan.takes, self.look):
            if self.ports.clock.now() > self.look.until:
                left = "no time is left for all node pools; a later delivery or tick takes the rest"
                self.errors.append(OutOfTime(left))
                return
            self._take_away(part, 1)

    def _take_away(self, part: Sequence[Act], looks: int) -> None:
        names = frozenset(act.pool for act in part)
        read_cluster_uid(self.key.cluster, self.ports)  # before the pods, which are read last
        source = Source(again=self.look, names=names, until=self.look.until)
        fresh, second = plan_for(self.key, self.ports, source)
        self.errors += fresh.errors
        agreed = [act for act in part if act in second.takes]
        late, _ = self._send([order(act, fresh, self.ports) for act in agreed], fresh)
        if looks == LOOKS_MAX:
            self._tell_late(late)
            return
        for act in late:
            self._take_away([act], looks + 1)

    def _send(self, orders: Sequence[Order], look: Look) -> tuple[list[Act], list[Act]]:
        """Do acts side by side; return those for which the look was too old, and those refused.

        One that fails stops no other.
        """
        late, refused = list[Act](), list[Act]()
        tasks = [partial(send, each, look, self.ports) for each in orders]
        results = self.ports.crew.run(tasks, seconds=ACT_SECONDS)
        for act, result in zip((each.act for each in orders), results, strict=True):
            if isinstance(result, OldLook):
                late.append(act)
            elif isinstance(result, Exception):
                self.errors.append(result)
            else:
                self.done.append(result)
                self.errors += [result.error] if result.error else []
                self.created += [act] if result.decision.verdict == Verdict.CREATE else []
                refused += [act] if result.refused else []
        return late, refused

    def _tell_late(self, acts: Sequence[Act]) -> None:
        """Say which pools could not be looked at in time."""
        for act in acts:
            what = f"node pool {act.pool}" if act.pool else "a node pool that is lacking"
            text = f"{what} could not be looked at within {LOOK_SECONDS:.0f} s, {LOOKS_MAX} times"
            decision = Decision(Verdict.REFUSE, Reason.VIEW_STALE, text)
            self.done.append(note(decision, self.look, pool=act.pool))


def _place(act: Act) -> tuple[str, str, Slot]:
    return act.pool, act.need, act.slot


def _cut(acts: Sequence[Act], look: Look) -> Iterator[list[Act]]:
    """Yield acts in parts that one fresh look may serve."""
    part: list[Act] = []
    nodes = 0
    for act in acts:
        more = len(look.nodes.get(act.pool, ()))
        if part and (len(part) >= POOLS_PER_LOOK or nodes + more > NODES_PER_LOOK):
            yield part
            part, nodes = [], 0
        part.append(act)
        nodes += more
    if part:
        yield part


def expect_young(look: Look, ports: Ports, since: float | None = None) -> None:
    """Return right before a call if what it rests on, or what was read `since`, is young enough."""
    now, began_at = ports.clock.now(), look.began_at if since is None else since
    if now > look.until:
        raise OutOfTime(f"no time is left for {look.key}; a later delivery or tick does it")
    if not 0 <= now - began_at <= LOOK_SECONDS:
        raise OldLook(f"the look at {look.key} took too long to act on")


class Order(Struct, frozen=True):
    """One act that is ready to be done."""

    act: Act
    outcome: Outcome  # if GKE accepts it
    call: Callable[[], object]
    entry: Entry | None = None  # what limits and slots count of a create, or of a higher maximum


def order(act: Act, look: Look, ports: Ports) -> Order:
    """Return what is to be sent for an act."""
    outcome, cluster = describe_act(act, look), look.key.cluster
    if act.verb in (Verb.MARK, Verb.CLOSE, Verb.OPEN):
        return Order(act, outcome, partial(_mark, act, look, ports))
    if act.verb in (Verb.CREATE, Verb.RAISE):
        return _order_more(act, outcome, look, ports)
    if ports.takes is None:
        raise Broken(f"this function does not {act.verb} node pool {act.pool}")
    if act.verb == Verb.DELETE:
        return Order(act, outcome, partial(ports.takes.delete, cluster, act.pool))
    lower = partial(ports.takes.lower_maximum, cluster, act.pool, act.maximum)
    return Order(act, outcome, lower)


def _order_more(act: Act, outcome: Outcome, look: Look, ports: Ports) -> Order:
    demand, cluster = find_demand(act, look), look.key.cluster
    need, entry = demand.need, Entry(pool=outcome.pool, namespace=look.key.namespace)
    if ports.adds is None:
        raise Broken(f"this function does not {act.verb} node pool {outcome.pool}")
    if act.verb == Verb.RAISE:
        entry.chips = (act.maximum - look.pools[act.pool].node_count) * need.chips
        entry.maximum, least = act.maximum, act.maximum if need.part else 0
        raises = partial(ports.adds.raise_maximum, cluster, act.pool, act.maximum, least=least)
        return Order(act, outcome, raises, entry)
    entry.chips = (act.maximum if need.elastic else need.hosts) * need.chips
    entry.way = demand.way
    own = {key: value for key, value in act.labels if not labels.is_reserved(key)}
    body = build_body(
        structs.replace(demand, node_labels=demand.node_labels | own),
        claim_slot(act, look),
        act,
        maximum=act.maximum,
        created_at=int(ports.clock.now()),
        cluster_uid=read_cluster_uid(cluster, ports),
        on_channel=bool(ports.pools.find_channel(cluster)),
    )
    return Order(act, outcome, partial(ports.adds.create, cluster, body), entry)


def _mark(act: Act, look: Look, ports: Ports) -> None:
    """Mark the nodes of a warm pool as idle or closed, or take the mark away."""
    live, since = ports.clusters[look.key.cluster], None
    if act.verb != Verb.OPEN:
        pool = next(pool for pool in look.scene.pools if pool.name == act.pool)
        since = ports.clock.now() if pool.idle_since is None else pool.idle_since
    closed = act.verb == Verb.CLOSE
    marks = [
        partial(live.mark_idle, node.name, since, closed=closed)
        for node in look.nodes.get(act.pool, ())
        if (node.idle_since, node.closed) != (since, closed)
    ]
    ports.crew.gather(marks)


def send(each: Order, look: Look, ports: Ports) -> Outcome:
    """Do an act, and return what came of it."""
    act, books, began_at = each.act, ports.budget[look.key.cluster], ports.clock.now()
    deletes = act.verb == Verb.DELETE
    obstacle = find_obstacle(act, look, ports) if deletes else None
    if obstacle is not None:
        return structs.replace(each.outcome, decision=obstacle)
    error: ProvisionerError | None = None
    try:
        expect_young(look, ports, look.users_read_at if deletes else None)
        if each.entry and ports.clock.now() < books.rests_until:  # others were told meanwhile
            raise NoPlace("GKE runs as many operations as it allows; the create waits for one")
        each.call()
    except ProvisionerError as caught:
        error = caught
    if each.entry:
        books.note_answer(each.entry, error, ports.clock.now())
    if error is None:
        return each.outcome
    outcome = explain_refusal(each, error, look)
    if deletes:
        books.give_back_deletion(act.pool, began_at)
    return outcome


def explain_refusal(each: Order, error: ProvisionerError, look: Look) -> Outcome:
    """Return what is told of an act that GKE refused."""
    pool, adds = each.outcome.pool, each.entry is not None
    if adds and isinstance(error, AlreadyExists):
        text = f"node pool {pool} is being created"
        decision = Decision(Verdict.WAIT, Reason.POOL_IN_PROGRESS, text)
        return structs.replace(each.outcome, decision=decision)
    if adds and isinstance(error, Throttled):
        wait = explain_rest(each, Reason.NO_OPERATION_SLOT, look)
        return structs.replace(wait, error=error)
    if not isinstance(error, REFUSED):
        raise error
    return structs.replace(
        each.outcome,
        decision=decide_gke_answer(pool, _DONE.get(each.act.verb, "changed"), error),
        # A higher maximum has no other way, so it would be asked for again and again.
        refused=each.act.verb == Verb.CREATE and isinstance(error, REFUSALS),
        error=error if isinstance(error, Busy) else None,
    )


def explain_rest(each: Order, reason: Reason, look: Look) -> Outcome:
    """Return what is told of an order that was not sent, as the plan says it of one."""
    decision = explain_answer(Answer(reason, each.act.need), look)
    return structs.replace(each.outcome, decision=decision)


def find_obstacle(act: Act, look: Look, ports: Ports) -> Decision | None:
    """Return why a pool is not deleted now: the API is not proven, or too many went without a word.

    What the owner itself says needs no bound. Many absent owners or failed pools at once are more
    often a mistake, for example a list that is wrongly empty, than true.
    """
    owner, most = look.workload, ports.settings.deletions_per_minute_max
    if not _is_proven(look.pools[act.pool], look, ports):
        text = f"node pool {act.pool} is kept: nothing proves that its cluster's API was read"
        return Decision(Verdict.KEEP, Reason.CLUSTER_UNPROVEN, text)
    if owner and (is_over(owner) or owner.suspended):
        return None
    if ports.budget[look.key.cluster].take_deletion(act.pool, ports.clock.now()):
        return None
    text = (
        f"node pool {act.pool} is left to a later tick: at most {most} node pools whose owners are "
        "absent, or that failed, are deleted in a minute"
    )
    return Decision(Verdict.KEEP, Reason.DELETIONS_OVER_CAP, text)


def _is_proven(pool: NodePool, look: Look, ports: Ports) -> bool:
    """Return whether the API that was read is that of the pool's cluster.

    A pool without the label of its cluster, as those of the Go program, is proven by a node of its
    own; a failed one without nodes by a node of any other pool.
    """
    label = pool.owner.cluster_uid if pool.owner else ""
    if label:
        return label == read_cluster_uid(look.key.cluster, ports)
    if look.nodes.get(pool.name):
        return True
    live = ports.clusters[look.key.cluster]
    return pool.status == PoolStatus.ERROR and bool(live.list_nodes(list(look.inventory.pools)))
