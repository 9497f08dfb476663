"""Threads that ask at the same time share one write of the ledger, and each gets its answer."""

import dataclasses
import threading
from typing import Any

import pytest

from shared.core.errors import ProvisionerError, StaleView, Unavailable
from shared.core.ports import Ledger
from shared.engine.looks.limit_holds import Limits, OwnHolds
from tests.builders import CLUSTER, a_claim, a_demand
from tests.component.crowd import CHIPS
from tests.component.world import World

THREADS, SECONDS = 8, 30


def hold_all(world: World) -> dict[int, Any]:
    """Let one thread write; the others ask meanwhile. Return what each got or met."""
    limits, plain = Limits(CLUSTER, world.ports), world.cluster.write_ledger
    begun, asked, found = threading.Event(), threading.Semaphore(0), dict[int, Any]()

    def write(namespace: str, ledger: Ledger) -> Ledger:
        if not begun.is_set():
            begun.set()
            for _ in range(THREADS - 1):
                assert asked.acquire(timeout=SECONDS)
            threading.Event().wait(0.1)  # from the sign to the queue is one line
        return plain(namespace, ledger)

    def ask(number: int) -> None:
        demand = dataclasses.replace(a_demand(), claim=a_claim(slice_key=f"default/slice-{number}"))
        if number:
            begun.wait(SECONDS)
            asked.release()
        try:
            found[number] = limits.hold(demand, f"pool-{number}")
        except Exception as error:  # noqa: BLE001 -- the test looks at it
            found[number] = error

    world.cluster.write_ledger = write  # type: ignore[method-assign]
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(THREADS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(SECONDS)
    return found


@pytest.mark.parametrize(("error", "failed"), [(Unavailable("503"), 1), (StaleView("another process"), 0)])
def test_an_error_of_one_write_is_met_by_one_thread_only(
    world: World, error: ProvisionerError, failed: int
) -> None:
    world.use(limit_chips=THREADS * CHIPS)
    world.cluster.fail_next("write_ledger", error)
    found = hold_all(world)

    assert sum(isinstance(each, OwnHolds) for each in found.values()) == THREADS - failed
    assert [each for each in found.values() if isinstance(each, Exception)] == [error] * failed
    assert len(world.cluster.ledgers[world.ports.settings.own_namespace].entries) == THREADS - failed
