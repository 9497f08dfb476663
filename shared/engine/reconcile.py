"""The only way: key, look, plan, act. A message, an operation and a tick all come here."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from shared.engine.act import LOOK_SECONDS, Order, do_act, order, read_cluster_uid, send, take_room
from shared.engine.look import Source
from shared.engine.reads import add_facts, take_look
from shared.engine.tell import name_pool, note
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import Broken, OldLook, OutOfTime, Rejected
from shared.plan.counting import Census
from shared.plan.plan import make_plan
from shared.plan.scene import Act, Answer, Plan, Verb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from shared.engine.act import Order
    from shared.engine.look import Key, Lists, Look
    from shared.engine.outside import Ports
    from shared.engine.tell import Outcome
    from shared.model.names import Slot

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


def reconcile(key: Key, role: Role, ports: Ports, lists: Lists | None = None) -> Run:
    """Look at a workload, plan, do the acts of one function, and return what came of them."""
    look, plan = plan_for(key, ports, Source(lists=lists))
    run = Run(key, ports, look, plan)
    if role == Role.PROVISION:
        run.add()
    else:
        run.take_away()
    return run


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
class Run:
    """The acts of one function for one workload."""

    key: Key
    ports: Ports
    look: Look
    """The last one, with its plan."""
    plan: Plan
    done: list[Outcome] = field(default_factory=list)
    """What came of the acts."""
    created: list[Act] = field(default_factory=list)
    """The creates among them that GKE accepted."""
    errors: list[Exception] = field(default_factory=list)

    def add(self) -> None:
        """Do what adds. After a refusal at once the next way of the same slot follows."""
        self._hold_rest(self.plan.adds)
        if self.plan.adds and self.ports.clock.now() - self.look.began_at > LISTS_SECONDS:
            self._look_anew()  # the lists of a tick are old
        acts, looks = list(self.plan.adds), 0
        while acts:
            late, refused = self._add(acts)
            looks += bool(late)
            if looks == LOOKS_MAX:
                self._tell_late(late)
                break
            acts = self._plan_again([*late, *refused], fresh=bool(late))
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
            ways = self.ports.budget.list_refused(self.key.cluster, self.ports.clock.now())
            scene = dataclasses.replace(self.look.scene, refused=ways)
            self.look, self.plan = dataclasses.replace(self.look, scene=scene), make_plan(scene)
        again = {_place(act) for act in acts}
        return [act for act in self.plan.adds if _place(act) in again]

    def _hold_rest(self, acts: Sequence[Act]) -> None:
        """Keep room for what a gang lacks beside what is sent, so that no other takes it."""
        rest = count_rest(self.look, acts) if self.look.scene.queue else 0
        self.ports.budget.hold(self.key, rest, self.ports.clock.now())

    def _look_anew(self) -> None:
        source = Source(until=self.look.until)
        self.look, self.plan = plan_for(self.key, self.ports, source)

    def _add(self, acts: Sequence[Act]) -> tuple[list[Act], list[Act]]:
        """Do acts that add; return those for which the look was too old, and those refused."""
        look, ports = self.look, self.ports
        opens = [act for act in acts if act.verb == Verb.OPEN]
        late, _ = self._do(opens, [partial(do_act, act, look, ports) for act in opens])
        orders = self._take_room([act for act in acts if act.verb != Verb.OPEN])
        sends = [partial(send, each, look, ports) for each in orders]
        later, refused = self._do([each.act for each in orders], sends)
        ports.memory.acted[self.key] = ports.clock.now()
        return [*late, *later], refused

    def _take_room(self, acts: Sequence[Act]) -> list[Order]:
        """Return what is to be sent and has room; of a gang all that it lacks, or none."""
        orders: list[Order] = []
        for act in acts:
            try:
                orders.append(order(act, self.look, self.ports))
            except Rejected as error:  # GKE would not accept it
                decision = Decision(Verdict.REFUSE, error.reason, str(error))
                name = act.pool or name_pool(act, self.look)
                self.done.append(note(decision, self.look, pool=name))
        parts = [orders] if self.look.scene.queue else [[each] for each in orders]
        affordable: list[Order] = []
        for part in parts:
            refusals = take_room(part, self.look, self.ports)
            self.done += refusals
            affordable += [] if refusals else part
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
        late, _ = self._do(agreed, [partial(do_act, act, fresh, self.ports) for act in agreed])
        if looks == LOOKS_MAX:
            self._tell_late(late)
            return
        for act in late:
            self._take_away([act], looks + 1)

    def _do(
        self, acts: Sequence[Act], tasks: Sequence[Callable[[], Outcome]]
    ) -> tuple[list[Act], list[Act]]:
        """Run acts side by side; return those for which the look was too old, and those refused.

        One that fails stops no other.
        """
        late, refused = list[Act](), list[Act]()
        results = self.ports.crew.run(tasks, seconds=ACT_SECONDS)
        for act, result in zip(acts, results, strict=True):
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


def count_rest(look: Look, acts: Sequence[Act]) -> int:
    """Return the chips that a gang which began lacks beside its pools and what is sent now."""
    scene, created = look.scene, Counter(act.need for act in acts)
    if not acts and not scene.pools:
        return 0
    lacking = Counter(want.need.key for want in Census(scene).demanded.unserved)
    return sum(
        max(0, lacking[need.key] - created[need.key]) * need.hosts * need.chips
        for need in scene.needs
    )


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
