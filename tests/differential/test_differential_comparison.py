"""The comparison sees what a watcher could see, and forgives what a watcher may miss."""

from __future__ import annotations

import copy
from collections import Counter

import pytest
from differential_comparison import compare, course_of
from differential_observer import EVENTS, JOBS, PODS, REST, Sight
from differential_traces import Course, Trace, read_trace

KEY = ("diff-scene", JOBS, "train-slice-0")


def trace_of(*states: dict[str, str], types: tuple[str, ...] = ("ADDED", "MODIFIED")) -> Trace:
    trace = Trace()
    trace.courses[KEY] = Course(list(types), list(states), [states[-1]])
    return trace


def seen(ours: Trace, theirs: Trace) -> list[tuple[str, str]]:
    return [(found.aspect, found.what) for found in compare(ours, theirs)]


def pod(name: str, uid: int, **status: object) -> dict:
    meta = {"namespace": "diff-scene", "name": name, "generateName": "train-0-", "uid": uid_of(uid)}
    return {"kind": "Pod", "metadata": meta, "status": status}


def uid_of(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


def test_equal_runs_have_no_difference():
    run = trace_of({"status.ready": "0"}, {"status.ready": "2"})

    assert seen(run, copy.deepcopy(run)) == []


def test_a_different_end_is_seen():
    assert seen(trace_of({"status.failed": "1"}), trace_of({"status.failed": "2"})) == [("final", "status.failed")]


def test_a_value_that_only_one_run_passed_through_is_seen():
    ours = trace_of({"phase": "Pending"}, {"phase": "Succeeded"})
    theirs = trace_of({"phase": "Pending"}, {"phase": "Running"}, {"phase": "Succeeded"})

    assert seen(ours, theirs) == [("course", "phase")]


def test_two_changes_in_the_other_order_are_seen():
    ours = trace_of({}, {"a": "x"}, {"a": "x", "b": "y"})
    theirs = trace_of({}, {"b": "y"}, {"a": "x", "b": "y"})

    assert seen(ours, theirs) == [("order", "a=x / b=y")]


def test_two_changes_in_one_write_are_no_difference():
    ours = trace_of({}, {"a": "x"}, {"a": "x", "b": "y"})
    theirs = trace_of({}, {"a": "x", "b": "y"})

    assert seen(ours, theirs) == []


@pytest.mark.parametrize(
    ("values", "turns"),
    [
        (["0", "1", "2"], ["0", "2"]),
        (["0", "2", "0"], ["0", "2", "0"]),
        (["(absent)", "1", "3"], ["0", "3"]),
        (["a", "a", "b"], ["a", "b"]),
    ],
)
def test_of_numbers_only_the_turns_count(values: list[str], turns: list[str]):
    assert course_of("path", [{"path": value} for value in values]) == turns


@pytest.mark.parametrize(("last", "differences"), [("DELETED", []), ("MODIFIED", [("final", "status.active")])])
def test_what_a_deleted_job_last_counted_is_forgiven(last: str, differences: list[tuple[str, str]]):
    ours = trace_of({"status.active": "2"}, types=("ADDED", last))
    theirs = trace_of(
        {"status.active": "2"}, {"status.terminating": "2", "status.active": "0"}, types=("ADDED", last)
    )
    for trace in (ours, theirs):
        trace.courses[KEY].rests = [{"status.active": "2"}]
    theirs.courses[KEY].rests.append({"status.active": "0", "metadata.deletionTimestamp": "<time>"})

    assert [each for each in seen(ours, theirs) if each[1] == "status.active"] == differences


def test_what_a_job_counted_before_it_was_deleted_is_compared():
    ours, theirs = (trace_of({"status.active": count}, types=("ADDED", "DELETED")) for count in ("2", "1"))
    for trace in (ours, theirs):
        trace.courses[KEY].rests = trace.courses[KEY].states[:]

    assert seen(ours, theirs) == [("course", "status.active")]


def test_an_object_that_only_one_cluster_has_is_seen():
    assert seen(trace_of({"a": "x"}), Trace()) == [("presence", "")]


def test_another_order_of_watch_events_is_seen():
    ours, theirs = trace_of({"a": "x"}), trace_of({"a": "x"}, types=("ADDED", "DELETED"))

    assert ("watch", "types") in seen(ours, theirs)


def test_missing_events_and_other_answers_are_seen():
    ours, theirs = Trace(), Trace()
    ours.events["diff-scene", "Pod a"] = Counter({"Normal Scheduled": 1})
    theirs.answers["diff-scene", "question"] = ("409 Conflict", "taken")

    assert seen(ours, theirs) == [("answer", "verdict"), ("events", "Normal Scheduled")]


def test_random_names_and_uids_are_settled_by_the_order_of_their_first_sight():
    one = read_trace([Sight(PODS, "ADDED", pod("train-0-bcdfg", 1, by=uid_of(1)))], [])
    other = read_trace([Sight(PODS, "ADDED", pod("train-0-wxz24", 2, by=uid_of(2)))], [])

    assert seen(one, other) == []
    assert list(one.courses) == [("diff-scene", PODS, "train-0")]


def test_a_refusal_of_the_scheduler_counts_when_it_stands_while_nothing_moves():
    waiting = {"type": "PodScheduled", "message": "none"}
    sight = Sight(PODS, "ADDED", pod("train-0-bcdfg", 1, conditions=[waiting]))
    rest = Sight(REST, REST, {"metadata": {"namespace": "diff-scene", "name": "", "uid": ""}})

    standing = read_trace([sight, rest, refusal("none"), refusal("passing")], [])

    assert list(standing.events["the whole script", "Pod"]) == ["Warning FailedScheduling (scheduler): none"]


def refusal(message: str) -> Sight:
    body = {
        "metadata": {"namespace": "diff-scene", "name": f"e-{message}", "uid": message},
        "involvedObject": {"kind": "Pod", "uid": uid_of(1)},
        "type": "Warning",
        "reason": "FailedScheduling",
        "reportingComponent": "scheduler",
        "message": message,
    }
    return Sight(EVENTS, "ADDED", body)
