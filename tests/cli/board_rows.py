"""Rows of `status` for the tests of the board: defaults that make a plain case, and overrides."""

from typing import Any

from cli.fleet.status_rows import PoolRow, WaitingRow

from shared.model.names import build_pool_name
from tests.builders import CLUSTER, a_claim

FIRST, SECOND = (build_pool_name(a_claim(), attempt) for attempt in (0, 1))
HOME = {"cluster": CLUSTER, "namespace": "default", "workload": "train", "slice": "train-workers-0"}


def a_row(pool: str = FIRST, state: str = "RUNNING", **overrides: Any) -> PoolRow:
    plain = {
        **HOME,
        "pool": pool,
        "owner_uid": "",
        "state": state,
        "nodes": 4,
        "chips": 16,
        "machine_type": "",
        "topology": "",
        "age_seconds": 50.0,
        "decision": "keep",
        "reason": "owner_live",
        "message": "it lives",
        "stuck": False,
        "attempt": 0,
        "failure": "",
        "tier": "on-demand",
        "dollars_per_hour": 43.2,
    }
    return PoolRow(**{**plain, **overrides})


def a_wait(pool: str = FIRST, **overrides: Any) -> WaitingRow:
    plain = {
        **HOME,
        "pod": "train-workers-0-0-x",
        "pool": pool,
        "waiting_seconds": 60.0,
        "decision": "wait",
        "reason": "pool_in_progress",
        "message": "GKE creates it",
        "stuck": False,
        "attempt": 0,
        "failure": "",
        "error": "",
        "next_try": "",
    }
    return WaitingRow(**{**plain, **overrides})
