"""Prepares a process for scenarios: tasks for threads, pure functions with a memory, no logs."""

import gc
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from shared.engine.looks import limit_holds, shared_reads

from shared.kinds.elastic import find_slice, leave_out_elastic, list_elastic
from shared.kinds.table import list_slices
from shared.model.names import build_pool_name, parse_owner
from shared.needs.demand import Demand
from shared.needs.demands import decide_demand, decide_planned_demand
from shared.plan.failures import classify_failure
from tests.simulation.sim_faults import Invocation
from tests.simulation.virtual_time import TaskLock, VirtualTime

Function = Callable[..., Any]
PURE: tuple[Function, ...] = (
    parse_owner,
    build_pool_name,
    leave_out_elastic,
    list_elastic,
    list_slices,
    find_slice,
    decide_demand,
    decide_planned_demand,
    classify_failure,
)
"""Functions of the product that a scenario asks again and again about the same values."""
_MEMORIES: list[dict[tuple[Any, ...], tuple[tuple[Any, ...], Any]]] = []


@contextmanager
def prepared() -> Iterator[None]:
    """Prepare this process for scenarios, and undo it; within another one nothing is done."""
    if vars(shared_reads)["threading"] is not threading:
        yield  # a second time would change fingerprints twice
        return
    watch, log = _Bugs(), logging.getLogger("functions")
    before = logging.root.manager.disable, log.propagate
    with ExitStack() as stack:
        # Locks are held across calls of ports, so tasks need their own.
        for module in (shared_reads, limit_holds):
            stack.enter_context(patch.object(module, "threading", SimpleNamespace(Lock=TaskLock)))
        for plain in PURE:
            remembering, name = _remember(plain), plain.__name__
            for module in [each for known, each in sys.modules.items() if known.startswith("shared.")]:
                if vars(module).get(name) is plain:
                    stack.enter_context(patch.object(module, name, remembering))
        fingerprint = _choose(_remember(vars(Demand)["fingerprint"].fget))
        stack.enter_context(patch.object(Demand, "fingerprint", property(fingerprint)))
        log.addHandler(watch)
        log.propagate = False
        logging.disable(logging.ERROR)
        gc.collect()
        gc.freeze()
        try:
            yield
        finally:
            gc.unfreeze()
            logging.disable(before[0])
            log.propagate = before[1]
            log.removeHandler(watch)


def forget() -> None:
    """Empty the memories: values of a scenario that is over never come again."""
    for known in _MEMORIES:
        known.clear()


class _Bugs(logging.Handler):
    """Notes on a run that it met an error which the product does not know."""

    def emit(self, record: logging.LogRecord) -> None:
        run = VirtualTime.get_owner()
        if getattr(record, "reason", "") == "internal_error" and isinstance(run, Invocation):
            trace = getattr(record, "stack_trace", "").strip().splitlines()
            run.bugs.append(trace[-1] if trace else record.getMessage())


def _remember(plain: Function) -> Function:
    """Return a pure function with a memory, which knows what it was given by identity.

    It keeps what it was given, so that no other value can have that identity. Nothing changes a
    value in place: neither the product, nor a scenario.
    """
    known: dict[tuple[Any, ...], tuple[tuple[Any, ...], Any]] = {}
    _MEMORIES.append(known)

    def call(*given: Any, **named: Any) -> Any:
        key = (*map(id, given), *((name, id(each)) for name, each in named.items()))
        entry = known.get(key)
        if entry is None:
            entry = known[key] = ((given, named), plain(*given, **named))
        return entry[1]

    return call


def _choose(plain: Callable[[Demand], str]) -> Callable[[Demand], str]:
    """Return the fingerprint of the version that runs: another version has another one."""

    def read(demand: Demand) -> str:
        found, run = plain(demand), VirtualTime.get_owner()
        return f"9-{found[::-1].replace('-', 'x')}" if isinstance(run, Invocation) and run.version else found

    return read
