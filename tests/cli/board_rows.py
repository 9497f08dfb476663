"""Rows of a status: a pool that GKE creates, the slice that waits for it, and overrides."""

from dataclasses import replace
from typing import Any

from cli.fleet.rows import PoolRow, WaitingRow
from cli.fleet.status import read_status
from tests.engine.world import World

WORLD = World()
(FIRST,) = WORLD.buy(0)
STATUS = read_status(WORLD.ports)


def a_row(pool: str = FIRST, state: str = "RUNNING", **overrides: Any) -> PoolRow:
    return replace(STATUS.pools[0], **{"pool": pool, "state": state, "nodes": 4, **overrides})


def a_wait(**overrides: Any) -> WaitingRow:
    return replace(STATUS.waiting[0], **overrides)
