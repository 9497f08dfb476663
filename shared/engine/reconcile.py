"""The only way: key, look, plan, act. A message, an operation and a tick all come here."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from shared.engine.act import (
    LOOK_SECONDS,
    Done,
    Order,
    count_rest,
    do_act,
    order_create,
    order_raise,
    read_cluster_uid,
    send,
    send_alone,
    take_room,
)
from shared.engine.look import Source
from shared.engine.reads import add_facts, take_look
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import Broken, OldLook, OutOfTime
from shared.plan.plan import make_plan
from shared.plan.scene import Answer, Plan, Verb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from shared.engine.look import Key, Lists, Look
    from shared.engine.outside import Ports
    from shared.model.names import Slot
    from shared.plan.scene import Act

ROUNDS_MAX = 4
POOLS_PER_LOOK, NODES_PER_LOOK = 16, 128
"""So many pools and nodes one fresh look may serve for what takes away; one pool of any size."""
LOOKS_MAX = 3
"""How often a pool is looked at whose looks took too long."""
LISTS_SECONDS = 5.0
"""How old the lists of a tick may be from which something is created without a look of its own."""
ACT_SECONDS = 45.0


class Role(StrEnum):
    """Which of the two functions acts."""

    PROVISION = "provision"
    COLLECT = "collect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of one key."""

    look: Look
    plan: Plan
    done: tuple[Done, ...] = ()
    errors: tuple[Exception, ...] = ()


def reconcile(key: Key, role: Role, ports: Ports, lists: Lists | None = None) -> Result:
    """Look at a workload, plan, and do the acts of one function."""
    shares = role == Role.PROVISION
    look, plan = plan_for(key, ports, Source(lists=lists, shares=shares))
    run = _Run(key, ports, look, plan)
    if role == Role.PROVISION:
        run.hold_rest(plan.adds)
        run.add()
        run.hold_rest([done.act for done in run.done if done.decision.verdict == Verdict.CREATE])
    else:
        run.take_away()
    errors = (*run.look.errors, *run.errors)
    return Result(look=run.look, plan=run.plan, done=tuple(run.done), errors=errors)


def plan_for(key: Key, ports: Ports, source: Source) -> tuple[Look, Plan]:
    """Return a look and the plan for it; a kind of fact is asked for once.

    Raises:
        Broken: a plan asked for more rounds than it may.
    """
    look = take_look(key, ports, source)
    if key.kind not in ports.settings.kinds:
        return look, Plan(answers=(Answer(Reason.KIND_NOT_SERVED),))
    for _ in range(ROUNDS_MAX):
        plan = make_plan(look.scene)
        if not plan.asks:
            return look, plan
        look = add_facts(look, plan.asks, ports)
    raise Broken(f"the plan for {key} asked for more rounds than it may")


@dataclass(slots=True)
class _Run:
    """The acts of one function for one workload."""

    key: Key
    ports: Ports
    look: Look
    plan: Plan
    done: list[Done] = dataclasses.field(default_factory=list)
    errors: list[Exception] = dataclasses.field(default_factory=list)

    def add(self) -> None:
        """Do what adds. After a refusal at once the next way of the same slot follows."""
        self._renew()
        acts, looks = self.plan.adds, 1
        while acts:
            late, refused = self._add(acts)
            if late and looks == LOOKS_MAX:
                self._tell_late(late)
                return
            if late:
                looks += 1
                self._look_anew()
            elif refused:
                self._plan_anew()
            again = {_place(act) for act in (*late, *refused)}
            acts = tuple(act for act in self.plan.adds if _place(act) in again)

    def _renew(self) -> None:
        """Look anew before something is created from the lists of a tick that are old."""
        if self.plan.adds and self.ports.clock.now() - self.look.began_at > LISTS_SECONDS:
            self._look_anew()

    def hold_rest(self, acts: Sequence[Act]) -> None:
        """Keep room for what a gang lacks beside what is sent, so that no other takes it."""
        rest = count_rest(self.look, acts) if self.look.scene.queue else 0
        self.ports.budget.hold(self.key, rest, self.ports.clock.now())

    def _look_anew(self) -> None:
        source = Source(shares=True, until=self.look.until)
        self.look, self.plan = plan_for(self.key, self.ports, source)

    def _plan_anew(self) -> None:
        """Plan from the same look: GKE has answered at once, so only its refusals are new."""
        ways = self.ports.budget.list_refused(self.key.cluster, self.ports.clock.now())
        scene = dataclasses.replace(self.look.scene, refused=ways)
        self.look = dataclasses.replace(self.look, scene=scene)
        self.plan = make_plan(scene)

    def _add(self, acts: Sequence[Act]) -> tuple[list[Act], list[Act]]:
        """Do acts that add; return those for which the look was too old, and those refused."""
        self.look = self._with_uid(self.look)
        opens = [act for act in acts if act.verb == Verb.OPEN]
        late = self._do(opens, [partial(do_act, act, self.look, self.ports) for act in opens])
        orders = self._order([act for act in acts if act.verb != Verb.OPEN])
        before = len(self.done)
        late += self._send(orders)
        self.ports.memory.acted[self.key] = self.ports.clock.now()
        return late, [done.act for done in self.done[before:] if done.refused]

    def _order(self, acts: Sequence[Act]) -> list[Order]:
        """Return what is to be sent; what GKE would not accept is told instead."""
        orders: list[Order] = []
        for act in acts:
            order = order_create if act.verb == Verb.CREATE else order_raise
            ready = order(act, self.look, self.ports)
            if isinstance(ready, Order):
                orders.append(ready)
            else:
                self._keep(ready)
        return orders

    def _send(self, orders: list[Order]) -> list[Act]:
        """Send orders, those of a gang only if there is room for all that it lacks."""
        look, ports, acts = self.look, self.ports, [each.act for each in orders]
        if not look.scene.queue:
            return self._do(acts, [partial(send_alone, each, look, ports) for each in orders])
        refusals = take_room(orders, look, ports) if orders else []
        for refusal in refusals:
            self._keep(refusal)
        gang = [] if refusals else [partial(send, each, look, ports) for each in orders]
        return self._do(acts, gang)

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
        self.look = self._with_uid(self.look)  # before the pods, which are read last
        source = Source(again=self.look, names=names, until=self.look.until)
        fresh, second = plan_for(self.key, self.ports, source)
        self.errors += fresh.errors
        fresh = dataclasses.replace(fresh, cluster_uid=self.look.cluster_uid)
        agreed = [act for act in part if act in second.takes]
        late = self._do(agreed, [partial(do_act, act, fresh, self.ports) for act in agreed])
        if looks == LOOKS_MAX:
            self._tell_late(late)
            return
        for act in late:
            self._take_away([act], looks + 1)

    def _with_uid(self, look: Look) -> Look:
        uid = read_cluster_uid(self.key.cluster, self.ports)
        return dataclasses.replace(look, cluster_uid=uid)

    def _do(self, acts: Sequence[Act], tasks: Sequence[Callable[[], Done]]) -> list[Act]:
        """Run acts side by side, and return those for which the look was too old.

        One that fails stops no other.
        """
        late: list[Act] = []
        results = self.ports.crew.run(tasks, seconds=ACT_SECONDS)
        for act, result in zip(acts, results, strict=False):
            if isinstance(result, OldLook):
                late.append(act)
            elif isinstance(result, Exception):
                self.errors.append(result)
            else:
                self._keep(result)
        return late

    def _keep(self, done: Done) -> None:
        self.done.append(done)
        if done.error is not None:
            self.errors.append(done.error)

    def _tell_late(self, acts: Sequence[Act]) -> None:
        """Say which pools could not be looked at in time."""
        for act in acts:
            what = f"node pool {act.pool}" if act.pool else "a node pool that is lacking"
            text = f"{what} could not be looked at within {LOOK_SECONDS:.0f} s, {LOOKS_MAX} times"
            decision = Decision(Verdict.REFUSE, Reason.VIEW_STALE, text)
            self.done.append(Done(act=act, pool=act.pool, decision=decision))


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
