"""The lanes of the board: what one slot went through, from readings and GKE's operations."""

from collections.abc import Sequence
from typing import Any

import pytest

from cli.board.lanes import KEPT_SECONDS, LANES_MAX, Created, Lane, Lanes, Span, find_phase, list_creations
from cli.board.readings import look as read
from cli.fleet.looks import read_cluster
from cli.fleet.rows import PoolRow, WaitingRow
from cli.fleet.status import Status
from shared.model.pools import Operation
from tests.builders import CLUSTER, NOW
from tests.cli.board_rows import FIRST, SECOND, SHAPE, a_row, a_wait, find_lane
from tests.cli.cli_world import a_deployment
from tests.engine.world import World


def look(lanes: Lanes, now: float, *rows: PoolRow | WaitingRow, creations: Sequence[Operation] = ()) -> list[Lane]:
    pools = [row for row in rows if isinstance(row, PoolRow)]
    waiting = [row for row in rows if isinstance(row, WaitingRow)]
    created = {find_lane(a_row()): Created("0", list(creations))} if creations else {}
    return lanes.observe(Status(pools=pools, waiting=waiting), created, now)


def drawn(lane: Lane) -> list[tuple[str, float, float | None]]:
    """Phase, beginning and end of each stretch, in seconds from now."""
    return [(each.phase, each.start - NOW, each.end and each.end - NOW) for each in lane.spans()]


def a_creation(pool: str = FIRST, **fields: Any) -> Operation:
    return Operation(
        **{"pool": pool, "creates": True, "ended": "ended_at" in fields, "began_at": NOW - 50, **fields}
    )


def test_the_whole_life_of_a_slot_is_drawn() -> None:
    lanes, made, ended = Lanes(), a_creation(), a_creation(ended_at=NOW + 100)

    look(lanes, NOW, a_row(state="PROVISIONING"), creations=[made])
    look(lanes, NOW + 110, a_row(), creations=[ended])
    look(lanes, NOW + 120, a_row(hosts_busy=4), creations=[ended])
    look(lanes, NOW + 200, a_row(decision="delete", reason="workload_over"), creations=[ended])
    look(lanes, NOW + 210, a_row(state="STOPPING"), creations=[ended])
    (lane,) = look(lanes, NOW + 300, creations=[ended])

    assert drawn(lane) == [
        ("create", -50, 100),
        ("place", 100, 120),
        ("use", 120, 200),
        ("over", 200, 210),
        ("delete", 210, 300),
    ]
    assert (lane.title, lane.state, lane.reason) == ("slot 0", "gone", "")


def test_a_need_that_waits_has_a_lane_of_its_own_that_comes_first() -> None:
    lanes = Lanes()

    first, second = look(lanes, NOW, a_row(state="PROVISIONING"), a_wait(stuck=True, slices=3))
    assert (first.title, first.waits, first.stuck, second.waits) == (f"3 of {SHAPE} wait", True, True, False)
    look(lanes, NOW + 30, a_row(hosts_busy=4))
    (ended,) = [lane for lane in look(lanes, NOW + 40, a_row(hosts_busy=4)) if lane.key == first.key]

    assert (drawn(ended), ended.waits, ended.state) == ([("wait", -60, 30)], False, "gone")


def test_each_failed_attempt_is_a_stretch_of_its_own_with_its_cause() -> None:
    failed = a_creation(error="[GCE_STOCKOUT] no", began_at=NOW - 300, ended_at=NOW - 200)
    running = a_creation(SECOND, began_at=NOW - 140)

    (lane,) = look(
        Lanes(),
        NOW,
        a_row(FIRST, "ERROR"),
        a_row(SECOND, "PROVISIONING", attempt=1, age_seconds=140.0),
        creations=[failed, running],
    )

    words = "[GCE_STOCKOUT] no"
    assert lane.spans() == [
        Span(phase="failed", start=NOW - 300, end=NOW - 200, pool=FIRST, cause="stockout", text=words),
        Span(phase="create", start=NOW - 140, end=None, pool=SECOND),
    ]
    assert lane.as_data()["failures"] == 1


@pytest.mark.parametrize(
    ("row", "phase"),
    [
        ({"state": "PROVISIONING"}, "create"),
        ({"state": "ERROR"}, "failed"),
        ({"state": "STOPPING"}, "delete"),
        ({"hosts_busy": 1}, "use"),
        ({"decision": "delete"}, "over"),
        ({"decision": "spare"}, "over"),
        ({"nodes": 0}, "wait"),
        ({}, "place"),
    ],
)
def test_the_phase_of_a_pool_follows_from_its_row(row: dict[str, Any], phase: str) -> None:
    assert find_phase(a_row(**row)) == phase


def test_what_a_cluster_did_not_tell_stays_as_it_was() -> None:
    lanes = Lanes()
    look(lanes, NOW, a_row(hosts_busy=4))

    (lane,) = lanes.observe(Status(errors=[f"{CLUSTER}: no answer"]), {}, NOW + 10)

    assert (lane.state, lane.ends) == ("RUNNING", {})


def test_a_lane_is_forgotten_some_time_after_its_end_and_all_are_bounded() -> None:
    lanes = Lanes()
    look(lanes, NOW, a_row())

    assert len(look(lanes, NOW + KEPT_SECONDS)) == 1
    assert look(lanes, NOW + KEPT_SECONDS + 1) == []
    old = Created("0", [a_creation(began_at=NOW - 2 * KEPT_SECONDS)])
    assert Lanes().observe(Status(), {find_lane(a_row()): old}, NOW) == [], "its pool is long gone"
    many = [a_wait(workload=f"w{number}") for number in range(LANES_MAX + 5)]
    assert len(look(lanes, NOW, *many)) == LANES_MAX


def test_the_creations_of_a_slot_are_found_by_the_names_of_its_pools(half_served: World) -> None:
    first, second = half_served.gke.pools
    gone = f"{second[:-1]}7"
    half_served.gke.operations += [
        a_creation(first),
        a_creation(gone, error="no"),
        a_creation("other-aaaaaaaaaaa-0"),
    ]
    ports = a_deployment(half_served).ports

    found = list_creations([read_cluster(CLUSTER, ports)])

    assert {key[:3]: None for key in found} == {(CLUSTER, "default", "train"): None}
    assert {created.slot: [each.pool for each in created.operations] for created in found.values()} == {
        "0": [first],
        "1": [gone],
    }
    assert len(read(ports, "default")[0].pools) == 2
