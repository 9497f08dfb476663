"""Rows of a status as the board draws them: a plain case, and overrides for the rest."""

from typing import Any

from cli.fleet.rows import PoolRow, WaitingRow
from shared.model.names import build_name
from tests.builders import CLUSTER, a_claim

FIRST = build_name(a_claim(), 0)
HOME = {"cluster": CLUSTER, "namespace": "default", "kind": "JobSet", "workload": "train"}
SHAPE = "4 x ct6e-standard-4t, 4x4"


def a_row(pool: str = FIRST, state: str = "RUNNING", **overrides: Any) -> PoolRow:
    plain = {
        **HOME,
        "pool": pool,
        "slot": "0",
        "attempt": 0,
        "state": state,
        "nodes": 4,
        "hosts_busy": 0,
        "chips": 16,
        "chips_idle": 0,
        "machine_type": "",
        "topology": "",
        "tier": "on-demand",
        "age_seconds": 50.0,
        "decision": "keep",
        "reason": "",
        "message": "its workload needs it, or uses it",
        "stuck": False,
        "failure": "",
        "error": "",
        "idle_seconds": None,
        "dollars_per_hour": 43.2,
    }
    return PoolRow(**{**plain, **overrides})


def a_wait(**overrides: Any) -> WaitingRow:
    plain = {
        **HOME,
        "shape": SHAPE,
        "slices": 1,
        "waiting_seconds": 60.0,
        "decision": "wait",
        "reason": "pool_in_progress",
        "message": "GKE creates it",
        "stuck": False,
        "attempt": 0,
        "candidate": "",
        "failures": 0,
        "failure": "",
        "error": "",
        "next_try": "",
    }
    return WaitingRow(**{**plain, **overrides})
