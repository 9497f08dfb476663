"""Prepares a process for stories: tasks for threads, pure functions with a memory, no logs."""

from __future__ import annotations

import functools
import gc
import logging
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from shared.core.demand.demand import Demand
from shared.core.identity import pools
from shared.core.identity.names import Claim, parse_owner
from shared.perform import reservations, shared_reads
from tests.simulation.sim_faults import Invocation
from tests.simulation.virtual_time import TaskLock, VirtualTime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from shared.core.identity.names import PoolOwner

MEMORY_MAX = 10_000


@contextmanager
def prepared() -> Iterator[None]:
    """Prepare this process for stories, and undo it."""
    watch, log = _Bugs(), logging.getLogger("functions")
    before = logging.root.manager.disable, log.propagate
    with ExitStack() as stack:
        # Locks are held across calls of ports, so tasks need their own.
        for module in (shared_reads, reservations):
            stack.enter_context(patch.object(module, "threading", SimpleNamespace(Lock=TaskLock)))
        stack.enter_context(patch.object(pools, "parse_owner", _remember_owners()))
        stack.enter_context(patch.object(Claim, "hash", property(_remember(_get(Claim, "hash")))))
        stack.enter_context(patch.object(Demand, "fingerprint", property(_choose(_get(Demand, "fingerprint")))))
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


class _Bugs(logging.Handler):
    """Notes on a run that it met an error which the product does not know."""

    def emit(self, record: logging.LogRecord) -> None:
        run = VirtualTime.get_owner()
        if getattr(record, "reason", "") == "internal_error" and isinstance(run, Invocation):
            trace = getattr(record, "stack_trace", "").strip().splitlines()
            run.bugs.append(trace[-1] if trace else record.getMessage())


def _get(kind: type, name: str) -> Callable[[Any], str]:
    """Return the function of a property."""
    found = vars(kind)[name]
    plain: Callable[[Any], str] = found.func if isinstance(found, functools.cached_property) else found.fget
    return plain


def _remember(plain: Callable[[Any], str]) -> Callable[[Any], str]:
    """Return the same function of a frozen value, with a memory."""
    return functools.lru_cache(MEMORY_MAX)(plain)


def _remember_owners() -> Callable[[Mapping[str, str]], PoolOwner | None]:
    """Return `parse_owner` with a memory: no story changes labels in place."""
    known: dict[int, tuple[Mapping[str, str], PoolOwner | None]] = {}

    def read(found: Mapping[str, str]) -> PoolOwner | None:
        entry = known.get(id(found))
        if entry is None or entry[0] is not found:
            if len(known) > MEMORY_MAX:
                known.clear()
            entry = known[id(found)] = (found, parse_owner(found))
        return entry[1]

    return read


def _choose(plain: Callable[[Demand], str]) -> Callable[[Demand], str]:
    """Return the fingerprint of the version that runs: another version has another one."""

    def read(demand: Demand) -> str:
        found, run = plain(demand), VirtualTime.get_owner()
        return f"9-{found[::-1].replace('-', 'x')}" if isinstance(run, Invocation) and run.version else found

    return read
