"""The only way: key, look, plan, act. A message, an operation and a tick all come here.

Each act compares the age of its look right before its call. Pools that are created, and maxima that
are raised, are first counted against limits and slots. A refusal is a fact of the next look.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter

from msgspec import Struct, structs

from shared.engine.budget import REFUSALS, Books, Entry, Inventory, Key
from shared.engine.look import LIVE, Lists, Look, is_over, view
from shared.engine.outside import Ports
from shared.engine.reads import add_facts, read_cluster_uid, take_look
from shared.engine.tell import (
    Outcome,
    claim_slot,
    describe_act,
    explain_answer,
    find_demand,
    note,
    say,
)
from shared.model import errors
from shared.model.decisions import Decision, Reason
from shared.model.pools import NodePool, PoolStatus
from shared.needs.nodepool import build_body
from shared.plan.counting import Census
from shared.plan.limits import count_chips
from shared.plan.plan import make_plan
from shared.plan.scene import Act, Answer, Plan, Verb

ROUNDS_MAX = 4
POOLS_PER_LOOK, NODES_PER_LOOK = 16, 128
"""So many pools and nodes one fresh look may serve for what takes away; one pool of any size."""
LOOKS_MAX = 3  # how often a pool is looked at whose looks took too long
LISTS_SECONDS = 5.0  # how old a tick's lists may be when a create rests on them alone
ACT_SECONDS = 45.0
LOOK_SECONDS = 10.0  # how old a look may be when an act rests on it; most take under a second
_DONE = {Verb.CREATE: "created", Verb.DELETE: "deleted"}
_WAITS = {errors.AlreadyExists: Reason.POOL_IN_PROGRESS, errors.Throttled: Reason.NO_OPERATION_SLOT}
"""What GKE's answer to a create, or to a higher maximum, means for its owner."""
_NOT_SERVED = Answer(Reason.KIND_NOT_SERVED)
_place = attrgetter("pool", "need", "slot")  # returns what an act is about, in any look


def reconcile(key: Key, ports: Ports, lists: Lists = LIVE) -> Run:
    """Look at a workload, plan, do the acts of one function, and return what came of them."""
    look, plan = plan_for(key, ports, lists)
    run = Run(key, ports, ports.books[key.cluster], look, plan)
    if ports.adds:
        run.add()
    else:
        run.take_away()
    return run


def plan_for(key: Key, ports: Ports, lists: Lists = LIVE) -> tuple[Look, Plan]:
    """Return a look and the plan; a kind of fact is asked for once."""
    look = take_look(key, ports, lists)
    serves = key.kind in ports.settings.kinds
    for _ in range(ROUNDS_MAX):
        look.scene = view(look, ports.settings)
        plan = make_plan(look.scene) if serves else Plan(answers=(_NOT_SERVED,))
        if not plan.asks:
            return look, plan
        add_facts(look, plan.asks, ports)
    raise errors.Broken(f"the plan for {key} asked for more rounds than it may")


class Run(Struct):
    """The acts of one function for one workload."""

    key: Key
    ports: Ports
    books: Books
    look: Look  # the last one, with its plan
    plan: Plan
    done: list[Outcome] = []  # what came of the acts
    errors: list[Exception] = []

    def add(self) -> None:
        """Do what adds. After a refusal at once the next way of the same slot follows."""
        if self.plan.adds and self.ports.clock.now() - self.look.began_at > LISTS_SECONDS:
            self._look_anew()  # the lists of a tick are old
        acts, looks = self._hold_room(), 0
        while acts:
            late, refused = self._send(acts, self.look)
            self.books.acted[self.key] = self.ports.clock.now()
            looks += bool(late)
            if looks == LOOKS_MAX:
                self._tell_late(late)
                return
            again = {_place(act) for act in (*late, *refused)}
            if again:
                self._look_anew()
            acts = [act for act in self.plan.adds if _place(act) in again]

    def _hold_room(self) -> list[Act]:
        """Return what adds; of a gang only if room for all that it lacks could be held."""
        scene, acts = self.look.scene, list(self.plan.adds)
        if scene.suspended_since is None:
            return acts
        census, now = Census(scene), self.ports.clock.now()
        lacking = [want.need for want in census.demanded.unserved if acts or scene.pools]
        chips = sum(count_chips(census, need) for need in lacking)
        if self.books.hold(self.key, chips, now, begun=bool(scene.pools)):
            return acts
        answers = [Answer(Reason.LIMIT_REACHED, act.need) for act in acts]
        self.done += [note(explain_answer(each, self.look), self.look) for each in answers]
        return []

    def _look_anew(self) -> None:
        until = Lists(until=self.look.until)
        self.look, self.plan = plan_for(self.key, self.ports, until)

    def take_away(self) -> None:
        """Do what takes away, as far as a second plan from a fresh look has it too."""
        parts = [(part, 1) for part in _cut(self.plan.takes, self.look)]
        all_go = _all_go(self.plan, self.look)
        while parts:
            part, looks = parts.pop(0)
            if self.ports.clock.now() > self.look.until:
                left = "no time is left for all node pools; a later delivery or tick takes the rest"
                self.errors.append(errors.OutOfTime(left))
                return
            # The second look gets by name the pools that it is for. Where all go, it lists them.
            names = frozenset(act.pool for act in part)
            before = Lists(
                inventory=Inventory() if all_go else self.look.inventory,
                names=names,
                users=self.look.users,
                operations=self.look.operations,
                until=self.look.until,
            )
            read_cluster_uid(self.key.cluster, self.ports)  # before the pods, which are read last
            fresh, second = plan_for(self.key, self.ports, before)
            self.errors += fresh.errors
            late, _ = self._send([act for act in part if act in second.takes], fresh)
            if looks == LOOKS_MAX:
                self._tell_late(late)
            else:
                parts += [([act], looks + 1) for act in late]

    def _send(self, acts: Sequence[Act], look: Look) -> tuple[list[Act], list[Act]]:
        """Do acts side by side; return those for which the look was too old, and those refused.

        One that fails stops no other.
        """
        late: list[Act] = []
        refused: list[Act] = []
        tasks = [partial(send, act, look, self.ports) for act in acts]
        results = self.ports.crew.run(tasks, seconds=ACT_SECONDS)
        for act, result in zip(acts, results, strict=True):
            if isinstance(result, errors.OldLook):
                late.append(act)
            elif isinstance(result, Exception):
                self.errors.append(result)
            else:
                self.done.append(result)
                self.errors += [result.error] if result.error else []
                refused += [act] if result.refused else []
        return late, refused

    def _tell_late(self, acts: Sequence[Act]) -> None:
        """Say which pools could not be looked at in time."""
        for act in acts:
            what = f"node pool {act.pool}" if act.pool else "a node pool that is lacking"
            facts = {"what": what, "seconds": LOOK_SECONDS, "times": LOOKS_MAX}
            decision = say(Reason.VIEW_STALE, **facts)
            self.done.append(note(decision, self.look, pool=act.pool))


def _all_go(plan: Plan, look: Look) -> bool:
    """Return whether all pools go, and several: no list that lags can then take one for another."""
    deletes = {act.pool for act in plan.takes if act.verb == Verb.DELETE}
    return len(deletes) > 1 and deletes >= look.pools.keys()


def _cut(acts: Sequence[Act], look: Look) -> list[list[Act]]:
    """Return acts in parts that one fresh look may serve."""
    parts: list[list[Act]] = []
    for act in acts:
        part = [*parts[-1], act] if parts else [act]
        nodes = sum(len(look.nodes.get(each.pool, ())) for each in part)
        if parts and len(part) <= POOLS_PER_LOOK and nodes <= NODES_PER_LOOK:
            parts[-1] = part
        else:
            parts.append([act])
    return parts


def expect_young(look: Look, ports: Ports, since: float | None = None) -> None:
    """Return right before a call if what it rests on, or what was read `since`, is young enough."""
    now, began_at = ports.clock.now(), look.began_at if since is None else since
    if now > look.until:
        raise errors.OutOfTime(f"no time is left for {look.key}; a later delivery or tick does it")
    if not 0 <= now - began_at <= LOOK_SECONDS:
        raise errors.OldLook(f"the look at {look.key} took too long to act on")


def send(act: Act, look: Look, ports: Ports) -> Outcome:
    """Do an act, and return what came of it."""
    outcome, deletes = describe_act(act, look), act.verb == Verb.DELETE
    books, entry = ports.books[look.key.cluster], count_entry(act, look, outcome.pool)
    began_at, error = ports.clock.now(), None
    try:
        call = prepare(act, look, ports)
    except errors.Rejected as refusal:
        return structs.replace(outcome, decision=refusal.decision)
    obstacle = find_obstacle(act, entry, look, ports, began_at)
    if obstacle is not None:
        return structs.replace(outcome, decision=obstacle)
    try:
        expect_young(look, ports, look.users_read_at if deletes else None)
        call()
    except errors.ProvisionerError as caught:
        error = caught
    if entry:
        books.note_answer(entry, error, ports.clock.now())
    if error is None:
        return outcome
    if deletes and not isinstance(error, errors.Unavailable):  # GKE may do it all the same
        books.give_back_deletion(act.pool, began_at)
    return explain_refusal(act, error, outcome, look)


def count_entry(act: Act, look: Look, pool: str) -> Entry | None:
    """Return what limits and slots count of a create, or of a higher maximum."""
    if act.verb not in (Verb.CREATE, Verb.RAISE):
        return None
    need = look.wanted.demands[act.need].need
    entry = Entry(pool=pool, key=look.key)
    if act.verb == Verb.RAISE:
        entry.maximum = act.maximum
        entry.chips = (act.maximum - look.pools[act.pool].maximum) * need.chips
    else:
        entry.way = need.ways[act.candidate]
        entry.chips = (act.maximum if need.elastic else need.hosts) * need.chips
    return entry


def prepare(act: Act, look: Look, ports: Ports) -> Callable[[], object]:
    """Return the call that does an act; `errors.Rejected` if GKE would not accept it."""
    cluster = look.key.cluster
    if act.verb in (Verb.MARK, Verb.CLOSE, Verb.OPEN):
        return partial(_mark, act, look, ports)
    if act.verb == Verb.CREATE and ports.adds:
        body = build_body(
            find_demand(act, look),
            claim_slot(act, look),
            act,
            maximum=act.maximum,
            created_at=int(ports.clock.now()),
            cluster_uid=read_cluster_uid(cluster, ports),
            on_channel=bool(ports.pools.find_channel(cluster)),
        )
        return partial(ports.adds.create, cluster, body)
    if act.verb == Verb.RAISE and ports.adds:
        # Pods that use less than half of a host would be moved, so their pool keeps all nodes.
        least = act.maximum * look.wanted.demands[act.need].need.part
        return partial(ports.adds.raise_maximum, cluster, act.pool, act.maximum, least=least)
    if act.verb == Verb.DELETE and ports.takes:
        return partial(ports.takes.delete, cluster, act.pool)
    if act.verb == Verb.LOWER and ports.takes:
        return partial(ports.takes.lower_maximum, cluster, act.pool, act.maximum)
    raise errors.Broken(f"this function does not {act.verb} node pool {act.pool}")


def _mark(act: Act, look: Look, ports: Ports) -> None:
    """Mark the nodes of a warm pool as idle or closed, or take the mark away."""
    nodes, live = look.nodes.get(act.pool, ()), ports.clusters[look.key.cluster]
    idle = [node.idle_since for node in nodes if node.idle_since]
    since = None if act.verb == Verb.OPEN else min(idle, default=ports.clock.now())
    closed = act.verb == Verb.CLOSE
    marks = [
        partial(live.mark_idle, node.name, since, closed=closed)
        for node in nodes
        if (node.idle_since, node.closed) != (since, closed)
    ]
    ports.crew.gather(marks)


def explain_refusal(
    act: Act, error: errors.ProvisionerError, outcome: Outcome, look: Look
) -> Outcome:
    """Return what is told of an act that GKE refused."""
    if act.verb in (Verb.CREATE, Verb.RAISE) and type(error) in _WAITS:
        decision = explain_answer(Answer(_WAITS[type(error)], act.need), look)
    elif isinstance(error, (errors.Busy, *REFUSALS)):
        verb = _DONE.get(act.verb, "changed")
        decision = say(error.reason, pool=outcome.pool, act=verb, error=error)
    else:
        raise error
    return structs.replace(
        outcome,
        decision=decision,
        # A higher maximum has no other way, so it would be asked for again and again.
        refused=act.verb == Verb.CREATE and isinstance(error, REFUSALS),
        error=error if isinstance(error, errors.Retryable) else None,
    )


def find_obstacle(
    act: Act, entry: Entry | None, look: Look, ports: Ports, now: float
) -> Decision | None:
    """Return why there is no room for what adds, or why a pool is not deleted now.

    Nothing is deleted while the API is not proven, or after too many went without a word.

    What the owner itself says needs no bound. Many absent owners or failed pools at once are more
    often a mistake, for example a list that is wrongly empty, than true.
    """
    owner, books = look.workload, ports.books[look.key.cluster]
    if entry:
        reason = books.take(entry, now)
        return explain_answer(Answer(reason, act.need), look) if reason else None
    if act.verb != Verb.DELETE:
        return None
    if not _is_proven(look.pools[act.pool], look, ports):
        return say(Reason.CLUSTER_UNPROVEN, pool=act.pool)
    if owner and (is_over(owner) or owner.suspended):
        return None
    if books.take_deletion(act.pool, now):
        return None
    most = ports.settings.deletions_per_minute_max
    return say(Reason.DELETIONS_OVER_CAP, pool=act.pool, most=most)


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
