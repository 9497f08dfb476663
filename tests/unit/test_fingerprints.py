"""The names and fingerprints of pools, and what may change without a new pool.

``golden/pools.json`` pins them: pools with these labels may exist.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from shared.core.decide.provision import decide_provision

from shared.edges.workload_objects import read_workload
from shared.kinds.table import KIND_NAMES, get_kind, list_slices
from shared.model.decisions import Verdict
from shared.model.names import PoolOwner, build_pool_name
from shared.model.pools import PoolStatus
from shared.needs.demand import Demand
from shared.needs.demands import decide_planned_demand
from tests.builders import CLUSTER, NOW, a_pool, settings

ROWS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "golden" / "pools.json").read_text())
VERSIONS = ("ours", "none", "of a later version", "not one of ours")


def plan(row: dict[str, Any]) -> dict[str, Demand]:
    """Return the demands of a row's workload by slice name."""
    workload = read_workload(get_kind(row["kind"]), row["workload"])
    wanted = list_slices(workload)
    found = {
        each.name: decide_planned_demand(CLUSTER, workload, each, settings(allowed_shared_reservations=("*",)))
        for each in wanted
    }
    return {name: demand for name, demand in found.items() if isinstance(demand, Demand)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["case"])
def test_a_workload_gets_the_pool_names_and_fingerprints_of_the_file(row: dict[str, Any]) -> None:
    found = {name: [build_pool_name(each.claim), each.fingerprint] for name, each in plan(row).items()}

    assert found == row["pools"]


def test_the_pinned_pools_are_of_every_kind_and_have_names_of_their_own() -> None:
    names = [name for row in ROWS for name, _ in row["pools"].values()]

    assert {row["kind"] for row in ROWS} == set(KIND_NAMES)
    assert all(row["pools"] for row in ROWS)
    assert len(names) > len(ROWS)


@pytest.mark.parametrize("label", VERSIONS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["case"])
def test_a_running_pool_of_any_version_serves_and_is_never_made_anew(row: dict[str, Any], label: str) -> None:
    for name, demand in plan(row).items():
        written = {"ours": row["pools"][name][1], "none": "", "of a later version": "2-abc"}.get(label, "x")
        pool = a_pool(claim=demand.claim, fingerprint=written)
        decision = decide_provision(demand, pool, now=NOW, settings=settings(replace_differing_pools=True))

        assert decision.verdict == Verdict.KEEP


def test_a_pool_of_our_version_with_another_fingerprint_still_differs() -> None:
    (demand, *_) = plan(ROWS[0]).values()
    pool = a_pool(claim=demand.claim, fingerprint=f"{demand.fingerprint[:-1]}0")

    assert pool.status == PoolStatus.RUNNING
    assert decide_provision(demand, pool, now=NOW, settings=settings()).verdict == Verdict.REFUSE


def widen(found: Any) -> Any:
    """Return the same value with one more field, as a later version knows it."""
    kind = type(found)
    field = ("field_of_a_later_version", str, dataclasses.field(default="x"))
    later = dataclasses.make_dataclass(
        f"Later{kind.__name__}", [field], bases=(kind,), frozen=True, slots=True, kw_only=True
    )
    return later(**{each.name: getattr(found, each.name) for each in dataclasses.fields(found)})


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["case"])
def test_a_new_field_does_not_change_the_fingerprint(row: dict[str, Any]) -> None:
    for name, demand in plan(row).items():
        gpus = widen(demand.shape.gpus) if demand.shape.gpus else None
        shape = widen(dataclasses.replace(demand.shape, gpus=gpus))
        capacity = widen(demand.capacity)
        later = widen(dataclasses.replace(demand, shape=shape, capacity=capacity))

        assert later.fingerprint == row["pools"][name][1]


@pytest.mark.parametrize(
    ("of_pool", "wanted", "same"),
    [
        ("1-abc", "1-abc", True),
        ("1-abc", "1-abd", False),
        ("", "1-abc", True),
        ("2-abc", "1-abd", True),
        ("1-abc", "2-abc", True),
        ("abc", "1-abc", True),
    ],
)
def test_fingerprints_are_compared_within_one_version_only(of_pool: str, wanted: str, *, same: bool) -> None:
    owner = PoolOwner(kind="JobSet", namespace="default", name="train", fingerprint=of_pool)

    assert owner.was_made_for(wanted) is same
