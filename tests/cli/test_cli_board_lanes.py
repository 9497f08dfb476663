"""The lanes of the board: what one slice went through, from readings and GKE's operations."""

from collections.abc import Sequence
from typing import Any

import pytest
from cli.fleet.failed_creations import FailureRow, tell_failures
from cli.fleet.status_rows import PoolRow, WaitingRow
from shared.core.identity.creations import Creation

from cli.board.lanes import KEPT_SECONDS, LANES_MAX, Lane, Lanes, Span, find_phase
from cli.fleet.status import Status
from shared.model.decisions import Reason, Verdict
from shared.model.names import build_pool_name
from tests.builders import CLUSTER, NOW, a_claim
from tests.cli.board_rows import FIRST, HOME, SECOND, a_row, a_wait


def look(lanes: Lanes, now: float, *rows: PoolRow | WaitingRow, creations: Sequence[Creation] = ()) -> list[Lane]:
    pools = [row for row in rows if isinstance(row, PoolRow)]
    waiting = [row for row in rows if isinstance(row, WaitingRow)]
    return lanes.observe(Status(pools=pools, waiting=waiting), {CLUSTER: creations}, now)


def drawn(lane: Lane) -> list[tuple[str, float, float | None]]:
    """Phase, beginning and end of each stretch, in seconds from now."""
    return [(each.phase, each.start - NOW, each.end and each.end - NOW) for each in lane.spans()]


def test_the_whole_life_of_a_slice_is_drawn() -> None:
    lanes, made = Lanes(), Creation(pool=FIRST, ended=False, began_at=NOW - 50)
    ended = Creation(pool=FIRST, ended=True, began_at=NOW - 50, ended_at=NOW + 100)

    look(lanes, NOW, a_row(state="PROVISIONING"), a_wait(), creations=[made])
    look(lanes, NOW + 110, a_row(), a_wait(), creations=[ended])
    look(lanes, NOW + 120, a_row(), creations=[ended])
    look(lanes, NOW + 200, a_row(decision="delete", reason="workload_over"), creations=[ended])
    look(lanes, NOW + 210, a_row(state="STOPPING", decision="wait", reason="pool_stopping"), creations=[ended])
    (lane,) = look(lanes, NOW + 300, creations=[ended])

    assert drawn(lane) == [
        ("wait", -60, -50),
        ("create", -50, 100),
        ("place", 100, 120),
        ("use", 120, 200),
        ("over", 200, 210),
        ("delete", 210, 300),
    ]
    assert (lane.state, lane.reason, lane.waits) == ("gone", "", False)


def test_each_failed_attempt_is_a_stretch_of_its_own_with_its_cause() -> None:
    failed = Creation(
        pool=FIRST, ended=True, error="[GCE_STOCKOUT] no", code=8, began_at=NOW - 300, ended_at=NOW - 200
    )
    running = Creation(pool=SECOND, ended=False, began_at=NOW - 140)
    stranger = Creation(pool=build_pool_name(a_claim(owner_uid="another")), ended=False, began_at=NOW - 99)

    (lane,) = look(
        Lanes(),
        NOW,
        a_row(FIRST, "ERROR", stuck=True),
        a_row(SECOND, "PROVISIONING", attempt=1, age_seconds=140.0),
        a_wait(SECOND, waiting_seconds=310.0),
        creations=[failed, running, stranger],
    )

    assert lane.spans() == [
        Span(phase="wait", start=NOW - 310, end=NOW - 300),
        Span(
            phase="failed", start=NOW - 300, end=NOW - 200, pool=FIRST, cause="stockout", text="[GCE_STOCKOUT] no"
        ),
        Span(phase="wait", start=NOW - 200, end=NOW - 140),
        Span(phase="create", start=NOW - 140, end=None, pool=SECOND),
    ]
    assert lane.as_data()["failures"] == 1


def test_a_pool_that_runs_empty_waits_and_then_failed_with_gkes_cause() -> None:
    lanes, first = Lanes(), Creation(pool=FIRST, ended=True, began_at=NOW - 50, ended_at=NOW - 28)
    second = Creation(pool=SECOND, ended=True, began_at=NOW + 31, ended_at=NOW + 53)
    empty = a_row(nodes=0, chips=0, dollars_per_hour=0.0)
    refused = a_wait(SECOND, decision="create", reason="pool_failed", failure="stockout", error="GKE: no")
    leaving = a_row(FIRST, "STOPPING", nodes=0, decision="wait", reason="pool_stopping")

    look(lanes, NOW, empty, a_wait(), creations=[first])
    look(lanes, NOW + 30, empty, refused, creations=[first])
    look(lanes, NOW + 60, leaving, a_row(SECOND, attempt=1, nodes=0), a_wait(SECOND), creations=[first, second])
    (lane,) = look(lanes, NOW + 90, a_row(SECOND, attempt=1), creations=[first, second])

    assert drawn(lane) == [
        ("wait", -60, -50),
        ("create", -50, -28),
        ("wait", -28, 30),
        ("failed", 30, 60),
        ("create", 31, 53),
        ("wait", 53, 90),
        ("delete", 60, 90),
        ("use", 90, None),
    ]
    (failed,) = [each for each in lane.spans() if each.phase == "failed"]
    assert (failed.pool, failed.cause, failed.text) == (FIRST, "stockout", "GKE: no")
    assert lane.as_data()["failures"] == 1


def test_a_slice_that_gets_no_pool_waits_on_and_says_why() -> None:
    refused = a_wait("", decision="refuse", reason="shape_unsupported", message="no such shape", stuck=True)

    (lane,) = look(Lanes(), NOW, refused)

    assert drawn(lane) == [("wait", -60, None)]
    shown = lane.as_data()
    assert (shown["reason"], shown["message"], shown["stuck"]) == ("shape_unsupported", "no such shape", True)


@pytest.mark.parametrize(("failure", "stuck"), [("quota_exceeded", True), ("throttled", False)])
def test_a_slice_whose_creations_gke_refuses_says_so_instead_of_what_it_would_create(
    failure: str, stuck: bool
) -> None:
    waiting = a_wait("", decision="create", reason="pool_absent", message="creating 4 x ct6e-standard-4t")
    words: dict[str, Any] = {
        "count": 2,
        "zone": "",
        "since": "08:00",
        "last": "08:01",
        "last_seconds": 5.0,
        "error": "no quota",
    }
    row = FailureRow(**{**HOME, **words, "failure": failure})

    (lane,) = Lanes().observe(Status(waiting=[waiting], failures=[row]), {}, NOW)

    shown = lane.as_data()
    assert (shown["reason"], shown["stuck"], shown["decision"]) == (failure, stuck, "create")
    assert shown["message"] == tell_failures(row)


def test_without_operations_a_pool_is_drawn_from_its_own_age() -> None:
    lanes = Lanes()

    look(lanes, NOW, a_row(state="PROVISIONING"), a_wait())
    (lane,) = look(lanes, NOW + 30, a_row(age_seconds=80.0))

    assert drawn(lane) == [("wait", -60, -50), ("create", -50, 30), ("use", 30, None)]


def test_what_a_cluster_without_an_answer_had_is_not_called_gone() -> None:
    lanes = Lanes()
    look(lanes, NOW, a_row())

    (lane,) = lanes.observe(Status(errors=[f"{CLUSTER}: no answer"]), {}, NOW + 60)

    assert (lane.state, drawn(lane)[-1]) == ("RUNNING", ("use", -50, None))


def test_those_who_need_a_person_are_first_and_old_lanes_go() -> None:
    lanes = Lanes()
    stuck = a_wait("", slice="c", stuck=True)

    found = look(lanes, NOW, a_row(slice="a"), a_wait("", slice="b"), stuck)
    later = look(lanes, NOW + KEPT_SECONDS + 1, a_row(slice="a"))

    assert [lane.key[3] for lane in found] == ["c", "b", "a"]
    assert [lane.key[3] for lane in later] == ["a"]


def test_the_number_of_lanes_is_bounded() -> None:
    rows = [a_row(slice=f"slice-{number}") for number in range(LANES_MAX + 5)]

    assert len(look(Lanes(), NOW, *rows)) == LANES_MAX


@pytest.mark.parametrize(
    ("row", "waits", "phase"),
    [
        (a_row(state="PROVISIONING", decision=Verdict.WAIT), True, "create"),
        (a_row(state="ERROR", decision=Verdict.DELETE), True, "failed"),
        (a_row(state="STOPPING", decision=Verdict.WAIT), False, "delete"),
        (a_row(decision=Verdict.DELETE, reason=Reason.OWNER_GONE), False, "over"),
        (a_row(decision=Verdict.WAIT, reason=Reason.PODS_STILL_BOUND), False, "over"),
        (a_row(reason=Reason.POOL_WARM), False, "over"),
        (a_row(), True, "place"),
        (a_row(state="RECONCILING"), False, "use"),
    ],
)
def test_every_state_of_a_pool_has_a_phase(row: PoolRow, waits: bool, phase: str) -> None:
    assert find_phase(row, waits=waits) == phase
