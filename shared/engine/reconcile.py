"""The only way: key → look → plan → act. A message, an operation and a tick all come here."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from shared.engine.act import Done, do_act
from shared.engine.look import add_facts, take_look
from shared.model.errors import Broken, OldLook, ProvisionerError
from shared.plan.plan import make_plan
from shared.plan.scene import Plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.engine.look import Key, Lists, Look, Memory
    from shared.engine.outside import Ports
    from shared.plan.scene import Act

ROUNDS_MAX = 4
POOLS_PER_LOOK = 16
"""So many pools one fresh look may serve for what takes away."""
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

    What takes away is planned twice: the second plan is made from a fresh look, right before the
    act, and only what both contain is done.

    Raises:
        ProvisionerError: something could not be read; nothing was done.
    """
    look, plan = plan_for(key, ports, memory, lists)
    if role == Role.PROVISION:
        return _act_on(plan.adds, look, plan, ports)
    if not plan.takes:
        return Result(look=look, plan=plan)
    done: list[Done] = []
    errors: list[Exception] = []
    for part in _cut(plan.takes):
        fresh, second = plan_for(key, ports, memory)
        agreed = [act for act in part if act in second.takes]
        result = _act_on(tuple(agreed), fresh, second, ports)
        done, errors = [*done, *result.done], [*errors, *result.errors]
    return Result(look=look, plan=plan, done=tuple(done), errors=tuple(errors))


def plan_for(
    key: Key, ports: Ports, memory: Memory, lists: Lists | None = None
) -> tuple[Look, Plan]:
    """Return a look and the plan for it; a kind of fact is asked for once.

    Raises:
        Broken: a plan asked for more rounds than it may.
    """
    look = take_look(key, ports, memory, lists)
    for _ in range(ROUNDS_MAX):
        plan = make_plan(look.scene)
        if not plan.asks:
            return look, plan
        look = add_facts(look, plan.asks, ports, memory)
    raise Broken(f"the plan for {key} asked for more rounds than it may")


def _cut(acts: tuple[Act, ...]) -> Iterator[tuple[Act, ...]]:
    for start in range(0, len(acts), POOLS_PER_LOOK):
        yield acts[start : start + POOLS_PER_LOOK]


def _act_on(acts: tuple[Act, ...], look: Look, plan: Plan, ports: Ports) -> Result:
    """Return what came of acts, which run side by side; one that fails stops no other."""
    results = ports.crew.run(
        [partial(do_act, act, look, ports) for act in acts], seconds=ACT_SECONDS
    )
    done = tuple(each for each in results if isinstance(each, Done))
    errors = tuple(each for each in results if isinstance(each, Exception))
    return Result(look=look, plan=plan, done=done, errors=errors)


def is_stale(error: Exception) -> bool:
    """Return whether an act did not begin because its look was too old."""
    return isinstance(error, OldLook)


def leave_out(result: Result, *kinds: type[ProvisionerError]) -> Result:
    """Return a result without some errors."""
    return dataclasses.replace(
        result, errors=tuple(each for each in result.errors if not isinstance(each, kinds))
    )
