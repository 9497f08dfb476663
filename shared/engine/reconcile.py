"""The only way: key, look, plan, act. A message, an operation and a tick all come here."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from shared.engine.act import Done, do_act
from shared.engine.creates import Order, order, send, send_alone, take_room
from shared.engine.deletions import read_cluster_uid
from shared.engine.facts import add_facts
from shared.engine.kueue import count_rest
from shared.engine.look import From, take_look
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import Broken, OldLook, OutOfTime
from shared.plan.plan import make_plan
from shared.plan.scene import Answer, Plan, Verb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from shared.engine.look import Key, Lists, Look, Memory
    from shared.engine.outside import Ports
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


def reconcile(
    key: Key, role: Role, ports: Ports, memory: Memory, lists: Lists | None = None
) -> Result:
    """Look at a workload, plan, and do the acts of one function.

    Raises:
        ProvisionerError: something could not be read; nothing was done.
    """
    shares = role == Role.PROVISION
    look, plan = plan_for(key, ports, memory, lists, source=From(lists=lists, shares=shares))
    run = _Run(key, ports, memory, look, plan)
    if role == Role.PROVISION:
        run.add()
    else:
        run.take_away()
    return Result(
        look=run.look, plan=run.plan, done=tuple(run.done.values()), errors=tuple(run.errors)
    )


def plan_for(
    key: Key,
    ports: Ports,
    memory: Memory,
    lists: Lists | None = None,
    *,
    source: From | None = None,
) -> tuple[Look, Plan]:
    """Return a look and the plan for it; a kind of fact is asked for once.

    Raises:
        Broken: a plan asked for more rounds than it may.
    """
    look = take_look(key, ports, memory, source or From(lists=lists))
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
    memory: Memory
    look: Look
    plan: Plan
    done: dict[tuple[str, str, str], Done] = dataclasses.field(default_factory=dict)
    """By verb and pool, or need and slot: what came of it last."""
    errors: list[Exception] = dataclasses.field(default_factory=list)

    # --- what adds

    def add(self) -> None:
        """Do what adds. After a refusal at once the next way of the same slot follows."""
        lists_are_old = self.ports.clock.now() - self.look.began_at > LISTS_SECONDS
        if self.plan.adds and lists_are_old:
            self._look_anew()
        acts: Sequence[Act] = self.plan.adds
        while acts:
            refused = self._add(acts)
            if not refused:
                return
            # GKE has answered, so only what it refuses has changed since the look.
            ways = self.ports.budget.list_refused(self.key.cluster, self.ports.clock.now())
            scene = dataclasses.replace(self.look.scene, refused=ways)
            self.look = dataclasses.replace(self.look, scene=scene)
            self.plan = make_plan(scene)
            acts = [act for act in self.plan.adds if (act.need, str(act.slot)) in refused]

    def _look_anew(self) -> None:
        source = From(shares=True, until=self.look.until)
        self.look, self.plan = plan_for(self.key, self.ports, self.memory, source=source)

    def _add(self, acts: Sequence[Act]) -> set[tuple[str, str]]:
        """Do acts that add side by side; return the need and slot of creates that GKE refused."""
        self._prove()
        opens = [act for act in acts if act.verb == Verb.OPEN]
        self._do(opens, [partial(do_act, act, self.look, self.ports) for act in opens])
        orders: list[Order] = []
        for act in acts:
            if act.verb == Verb.OPEN:
                continue
            ready = order(act, self.look, self.ports)
            if isinstance(ready, Done):
                self._keep(ready)
            else:
                orders.append(ready)
        results = self._send(orders)
        return {(done.act.need, str(done.act.slot)) for done in results if done.refused}

    def _send(self, orders: list[Order]) -> list[Done]:
        """Send orders, those of a gang only if there is room for all that it lacks."""
        look, ports = self.look, self.ports
        if not look.scene.queue:
            tasks = [partial(send_alone, each, look, ports) for each in orders]
            return self._do([each.act for each in orders], tasks)
        refusals = take_room(orders, look, ports) if orders else []
        for refusal in refusals:
            self._keep(refusal)
        left = 0 if refusals else count_rest(look, [each.act for each in orders])
        ports.budget.hold(self.key, left, ports.clock.now())
        if refusals:
            return []
        gang = [partial(send, each, look, ports) for each in orders]
        return self._do([each.act for each in orders], gang)

    # --- what takes away

    def take_away(self) -> None:
        """Do what takes away, as far as a second plan from a fresh look has it too."""
        for part in _cut(self.plan.takes, self.look):
            if self.ports.clock.now() > self.look.until:
                left = "no time is left for all node pools; a later delivery or tick takes the rest"
                self.errors.append(OutOfTime(left))
                return
            self._take_away(part)

    def _take_away(self, part: Sequence[Act]) -> None:
        names = frozenset(act.pool for act in part)
        source = From(again=self.look, names=names, until=self.look.until)
        fresh, second = plan_for(self.key, self.ports, self.memory, source=source)
        fresh = self._with_uid(fresh)
        agreed = [act for act in part if act in second.takes]
        late = self._do_fresh(agreed, fresh)
        for act in late if len(part) > 1 else ():
            self._take_away([act])

    def _do_fresh(self, acts: Sequence[Act], look: Look) -> list[Act]:
        """Do acts on a fresh look; return those for which it was too old."""
        before = len(self.errors)
        self._do(acts, [partial(do_act, act, look, self.ports) for act in acts])
        late = [error for error in self.errors[before:] if isinstance(error, OldLook)]
        self.errors[before:] = [each for each in self.errors[before:] if each not in late]
        done = {place[1] for place in self.done}
        return [act for act in acts if late and act.pool not in done]

    # --- both

    def _prove(self) -> None:
        self.look = self._with_uid(self.look)

    def _with_uid(self, look: Look) -> Look:
        uid = read_cluster_uid(self.key.cluster, self.ports, self.memory)
        return dataclasses.replace(look, cluster_uid=uid)

    def _do(self, acts: Sequence[Act], tasks: Sequence[Callable[[], Done]]) -> list[Done]:
        """Run acts side by side; one that fails stops no other."""
        results: list[Done] = []
        for each in self.ports.crew.run(tasks, seconds=ACT_SECONDS):
            if isinstance(each, Exception):
                self.errors.append(each)
            else:
                self._keep(each)
                results.append(each)
        return results

    def _keep(self, done: Done) -> None:
        self.done[str(done.act.verb), done.act.pool or f"{done.act.need} {done.act.slot}", ""] = done
        if done.error is not None:
            self.errors.append(done.error)


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
