"""A suspended workload that asks for capacity first: what it asks, refusals, and the pause."""

from typing import Any

import pytest

from shared.core import labels
from shared.core.decide.capacity_first import (
    decide_pause,
    end_round,
    find_wait,
    is_asking,
    read_request,
    write_resumed,
    write_round,
)
from shared.core.decide.gangs import CapacityRequest
from shared.core.decide.pool_facts import OwnerState
from shared.core.decisions import Reason, Verdict
from shared.core.kueue import SECONDS
from shared.core.times import format_time
from shared.core.workloads import Parent, WorkloadView
from tests.builders import CLUSTER, NOW, a_jobset, expect_decision, settings

ON = settings(capacity_first=True)
ASKS = {labels.CAPACITY_FIRST: "true"}


def a_waiting_jobset(marks: dict[str, str] | None = None, **overrides: Any) -> WorkloadView:
    return a_jobset(**{"suspended": True, "marks": ASKS | (marks or {}), **overrides})


def test_a_suspended_workload_with_the_annotation_asks() -> None:
    assert read_request(a_waiting_jobset(), ON) == CapacityRequest(seconds=SECONDS)
    asked = {labels.CAPACITY_FIRST_SECONDS: "90", labels.CAPACITY_FIRST_ROUND: "3 from 2027-01-15T08:00:00Z"}
    assert read_request(a_waiting_jobset(asked), ON) == CapacityRequest(seconds=90, round=3, begins_at=NOW)


@pytest.mark.parametrize(
    "workload",
    [
        a_jobset(suspended=True),
        a_jobset(suspended=True, marks={labels.CAPACITY_FIRST: "false"}),
        a_waiting_jobset({labels.CAPACITY_FIRST: "false", labels.CAPACITY_FIRST_SECONDS: "600"}),
        a_waiting_jobset(suspended=False),
        a_waiting_jobset({labels.CAPACITY_FIRST_RESUMED: "2027-01-15T08:00:00Z"}),
        a_waiting_jobset(deleting=True),
        a_waiting_jobset(terminal="Failed"),
        a_waiting_jobset(parent=Parent(kind="RayJob", namespace="default", name="r", uid="u", ended="Failed")),
    ],
)
def test_no_other_asks(workload: WorkloadView) -> None:
    assert read_request(workload, ON) is None
    assert find_wait(CLUSTER, workload, (), ON, now=NOW) is None


@pytest.mark.parametrize(
    ("marks", "overrides", "words"),
    [
        ({labels.CAPACITY_FIRST: "yes"}, {}, "got 'yes'); valid: true, false"),
        ({labels.CAPACITY_FIRST: ""}, {}, "no value"),
        ({labels.CAPACITY_FIRST_SECONDS: "0"}, {}, "valid: 60 to 86400"),
        ({labels.CAPACITY_FIRST_SECONDS: "86401"}, {}, "valid: 60 to 86400"),
        ({labels.CAPACITY_FIRST_SECONDS: "-5"}, {}, "got '-5'"),
        ({labels.CAPACITY_FIRST_SECONDS: "30m"}, {}, "got '30m'"),
        ({labels.CAPACITY_FIRST_SECONDS: "9" * 5000}, {}, "valid: 60 to 86400"),
        ({labels.DISABLE_AUTOPROVISIONING: "true"}, {}, "contradicts"),
        ({labels.QUEUE_NAME: "team-a"}, {}, "leaves it to a queue"),
        ({}, {"part_of": "Train default/big"}, "Train default/big controls"),
        ({}, {"kind": "LeaderWorkerSet", "suspended": False}, "valid: JobSet, RayCluster, Job, RayJob"),
        ({}, {"kind": "Pod", "suspended": False}, "cannot be suspended"),
    ],
)
def test_what_cannot_be_is_refused_by_name(marks: dict[str, str], overrides: dict[str, Any], words: str) -> None:
    found = expect_decision(read_request(a_waiting_jobset(marks, **overrides), ON))

    assert (found.verdict, found.reason) == (Verdict.REFUSE, Reason.REQUEST_NOT_ALLOWED)
    assert "capacity-first" in found.message
    assert words in found.message


def test_seconds_alone_and_a_setting_that_is_off_are_refused_too() -> None:
    asking = a_jobset(suspended=True, marks={labels.CAPACITY_FIRST_SECONDS: "90"})
    alone = expect_decision(read_request(asking, ON))
    off = expect_decision(read_request(a_waiting_jobset(), settings()))

    assert "no value" in alone.message
    assert "the setting capacity_first is off" in off.message
    assert find_wait(CLUSTER, a_waiting_jobset(), (), settings(), now=NOW) is None


def test_the_owner_is_live_in_a_round_and_returning_in_the_pause_after_it() -> None:
    waiting = a_waiting_jobset()
    assert find_wait(CLUSTER, waiting, (), ON, now=NOW) == OwnerState.LIVE
    answer = end_round(waiting, 0, NOW)
    paused = a_waiting_jobset({labels.CAPACITY_FIRST_ROUND: str(answer[labels.CAPACITY_FIRST_ROUND])})

    assert find_wait(CLUSTER, paused, (), ON, now=NOW + 59) == OwnerState.RETURNING
    assert find_wait(CLUSTER, paused, (), ON, now=NOW + 76) == OwnerState.LIVE
    request = read_request(paused, ON)
    assert isinstance(request, CapacityRequest)
    assert request.round == 1
    assert "round 2 begins at 08:0" in decide_pause(request).message


def test_the_pause_doubles_up_to_half_an_hour() -> None:
    workload, pauses = a_waiting_jobset(), []
    for number in (0, 1, 4, 5, 9_999):
        answer = a_waiting_jobset({k: str(v) for k, v in end_round(workload, number, NOW).items()})
        request = read_request(answer, ON)
        assert isinstance(request, CapacityRequest)
        assert request.begins_at is not None
        pauses.append(request.begins_at - NOW)

    for pause, least in zip(pauses, (60, 120, 960, 1800, 1800), strict=True):
        assert least - 1 <= pause <= least * 1.25


@pytest.mark.parametrize("message", ["", "x", "1", "1 from tomorrow", "-1 from 2027-01-15T08:30:00Z", "9" * 99])
def test_a_round_that_nobody_wrote_so_is_the_first(message: str) -> None:
    assert read_request(a_waiting_jobset({labels.CAPACITY_FIRST_ROUND: message}), ON) in (
        CapacityRequest(seconds=SECONDS),
        CapacityRequest(seconds=SECONDS, round=1),
    )


def test_a_forged_round_far_ahead_is_no_pause() -> None:
    forged = {labels.CAPACITY_FIRST_ROUND: f"1 from {format_time(NOW + 86_400)}"}
    assert find_wait(CLUSTER, a_waiting_jobset(forged), (), ON, now=NOW) == OwnerState.LIVE


def test_what_was_resumed_asks_no_more() -> None:
    marks = ASKS | {key: value for key, value in write_round(1, NOW).items() if value}
    assert is_asking(a_jobset(marks=marks))
    resumed = marks | write_resumed(a_jobset(), NOW)
    assert resumed[labels.CAPACITY_FIRST_ROUND] is None
    assert not is_asking(a_jobset(marks={key: value for key, value in resumed.items() if value}))
