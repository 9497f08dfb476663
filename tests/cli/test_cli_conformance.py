"""``conformance`` tells each assumed answer and each other one right, and leaves nothing."""

from collections.abc import Iterator
from typing import Any

import pytest

from cli.conformance.asking_google import Budget, ask_all, find_obstacle
from cli.conformance.conformance_run import choose_questions, list_questions
from cli.conformance.probe_pools import LABEL, Lab
from cli.conformance.questions import Verdict
from tests.cli.cli_world import put_in_place, run
from tests.cli.conformance_world import ZONE, Project, serve_gke

ASKED = [
    each.name
    for each in list_questions()
    if each.ask.__module__ != "cli.conformance.deployment_questions" and each.name != "stockout"
]
MUCH = Budget(minutes=1000, dollars=1000)
TPU = "ct6e-standard-4t:4x4"
BUSY, EXISTS = "400 FAILED_PRECONDITION, read as Busy", "409 ALREADY_EXISTS, read as AlreadyExists"
INVALID = "400 INVALID_ARGUMENT, read as InvalidRequest"
ABSENT, THROTTLED = "404 NOT_FOUND, read as NotFound", "429 RESOURCE_EXHAUSTED, read as Throttled"
IN_FLIGHT = {"switch": "max_inflight_ops", "value": 5}
WORDS = {"permission": "rights", "org_policy": "policy"}


@pytest.fixture
def project(fake: str) -> Iterator[Project]:
    made = Project(fake)
    yield made
    made.rest()
    assert made.list_pools() == []


def ask(project: Project, name: str) -> Any:
    """Return the answer to one question."""
    project.open_lab(tpu=TPU, zone=ZONE)
    ask_all(project.lab, choose_questions((name,)), MUCH, dollars=1.0)
    return project.report.answers[name]


@pytest.mark.parametrize("name", ASKED)
def test_each_assumed_answer_is_told_as_assumed(project: Project, name: str) -> None:
    answer = ask(project, name)

    assert (answer.verdict, answer.seen) == (Verdict.AS_ASSUMED, answer.assumed)
    assert project.report.scenario == {"faults": [], "timings": {}}
    assert project.list_pools() == []


def test_a_slice_that_needs_a_workload_policy_is_asked_in_the_form_of_the_functions(project: Project) -> None:
    project.open_lab(tpu="tpu7x-standard-4t:2x2x2", zone=ZONE)
    ask_all(project.lab, choose_questions(("empty-slice",)), MUCH, dollars=1.0)

    answer = project.report.answers["empty-slice"]
    assert (answer.seen, answer.details) == ("RUNNING", {"placement": "policyName tpu-provisioner-2x2x2"})


def refuse(method: str, code: str, *, nth: int = 1, count: int = 1) -> dict[str, Any]:
    return {"switch": "fail_sync", "code": code, "text": "no", "method": method, "nth": nth, "count": count}


DUP = {"switch": "dup_create_inflight", "answer": "exists"}
STOPPING = {"switch": "create_while_stopping", "answer": "exists"}
NO_GET = {"switch": "get_404_after_create", "count": 1}
ASYNC = {"switch": "bad_node_count", "answer": "async"}
TO_LABEL = "google.com/conformance-run"
CREATE, DELETE, INVALID_CODE = "CreateNodePool", "DeleteNodePool", "INVALID_ARGUMENT"


def runs(value: int) -> dict[str, Any]:
    return {"switch": "max_running_ops", "value": value}


def lag(switch: str, seconds: float) -> dict[str, Any]:
    return {"switch": switch, "seconds": seconds}


Row = tuple[str, dict[str, Any], str, list[dict[str, Any]]]
OTHERS: list[Row] = [
    ("missing-pool", refuse("GetNodePool", INVALID_CODE), f"read: {INVALID}; delete: {ABSENT}", []),
    ("missing-pool", refuse(DELETE, "FAILED_PRECONDITION"), f"read: {ABSENT}; delete: {BUSY}", []),
    ("missing-cluster", refuse("ListNodePools", "NOT_FOUND", nth=2), ABSENT, []),
    ("duplicate-create", DUP, EXISTS, [DUP]),
    ("duplicate-create", refuse(CREATE, "ABORTED"), "409 ABORTED, read as StaleView", []),
    ("duplicate-create", refuse(CREATE, INVALID_CODE, count=2), f"both are refused: {INVALID}", []),
    ("create-existing", refuse(CREATE, "FAILED_PRECONDITION", nth=2), BUSY, []),
    ("create-while-deleting", STOPPING, EXISTS, [STOPPING]),
    ("create-while-deleting", refuse(CREATE, "RESOURCE_EXHAUSTED", nth=2), THROTTLED, []),
    ("delete-while-creating", refuse(DELETE, "NOT_FOUND"), ABSENT, []),
    ("delete-twice", refuse(DELETE, "NOT_FOUND", nth=2), ABSENT, []),
    ("read-after-create", NO_GET, ABSENT, [NO_GET]),
    ("list-after-create", lag("stale_list", 290), "later", [lag("stale_list", 290.0)]),
    ("status-after-end", lag("read_lag", 130), "later", [lag("read_lag", 130.0)]),
    ("operation-fields", lag("op_gc", 0), "wrong or absent: type, target, status, start, end", []),
    ("operations-kept", lag("op_gc", 5), "forgotten", [lag("op_gc", 0.0)]),
    ("operations-at-once", runs(7), "24 of 24 accepted, 7 run", [runs(7)]),
    ("operations-at-once", runs(40), "24 of 24 accepted, 24 run", [runs(24)]),
    ("operations-at-once", IN_FLIGHT, "5 of 24 accepted, 5 run", [runs(5), IN_FLIGHT]),
    ("auto-upgrade", refuse(CREATE, "FAILED_PRECONDITION"), BUSY, []),
    ("exclusion", refuse(CREATE, INVALID_CODE), INVALID, []),
    ("label-limit", refuse(CREATE, INVALID_CODE), f"as long as ours may be: {INVALID}; 100 more: {INVALID}", []),
    ("name-length", refuse(CREATE, INVALID_CODE), f"40 characters: {INVALID}; 41: {INVALID}", []),
    ("empty-slice", refuse(CREATE, INVALID_CODE), INVALID, []),
    ("resize-slice", refuse("SetNodePoolSize", INVALID_CODE), INVALID, []),
    ("bad-node-count", ASYNC, "accepted", [ASYNC]),
]
"""Question, what the fake does otherwise, what is seen, and the faults in the report."""


@pytest.mark.parametrize(("name", "fault", "seen", "faults"), OTHERS)
def test_each_other_answer_is_told_right(
    project: Project, name: str, fault: dict[str, Any], seen: str, faults: list[dict[str, Any]]
) -> None:
    project.add_fault(**fault)

    answer = ask(project, name)

    assert (answer.verdict, answer.seen) == (Verdict.DIFFERS, seen)
    assert project.report.scenario["faults"] == faults
    assert project.list_pools() == []


@pytest.mark.parametrize(
    ("name", "switch"), [("list-after-create", "stale_list"), ("status-after-end", "read_lag")]
)
def test_a_lag_that_the_code_allows_for_is_as_assumed_and_the_fake_plays_it(
    project: Project, name: str, switch: str
) -> None:
    project.add_fault(**lag(switch, 12))

    assert ask(project, name).verdict == Verdict.AS_ASSUMED
    assert project.report.scenario["faults"] == [lag(switch, 12.0)]


def test_a_list_that_has_a_pool_late_but_before_its_end_is_played_so(project: Project) -> None:
    project.add_fault(**lag("stale_list", 12), created=False)

    assert ask(project, "list-after-create").verdict == Verdict.AS_ASSUMED
    fault = project.report.scenario["faults"][0]
    assert (fault["switch"], fault["created"]) == ("stale_list", False)
    assert 12 <= fault["seconds"] <= 15


def test_a_field_that_comes_back_with_another_value_is_named(project: Project) -> None:
    labels = {TO_LABEL: "2", LABEL: project.report.run}
    project.add_fault(switch="external_actor", seconds=0, labels=labels)

    assert ask(project, "fields").seen == f"changed or absent: config.labels.{TO_LABEL}"


@pytest.mark.parametrize("kind", ["stockout", "quota", "reservation", "internal", "permission", "org_policy"])
def test_a_slice_that_gets_no_machines_is_told_in_googles_words(project: Project, kind: str) -> None:
    project.add_fault(switch="outcome", kind=kind, machine_type="ct6e-*")

    answer = ask(project, "stockout")

    assert answer.seen.startswith(f"ERROR, read as {WORDS.get(kind, kind)}")
    assert (answer.verdict == Verdict.AS_ASSUMED) == (kind == "stockout")
    assert answer.details["words"]
    assert answer.details["another pool runs"].startswith("after ")
    assert project.report.scenario["timings"]["stockout"] == pytest.approx(
        2110 if kind == "stockout" else 55, abs=30
    )


def test_capacity_that_is_there_answers_nothing_about_a_stockout(project: Project) -> None:
    answer = ask(project, "stockout")

    assert answer.verdict == Verdict.NOT_ASKED
    assert "the slice got its machines after" in answer.seen
    assert project.list_pools() == []


@pytest.mark.parametrize(
    "fault",
    [
        {"switch": "lose_reply", "method": "CreateNodePool", "how": how}
        for how in ("drop", "unavailable", "deadline")
    ]
    + [refuse("CreateNodePool", code) for code in ("UNAVAILABLE", "INTERNAL", "PERMISSION_DENIED")],
)
def test_an_error_that_says_nothing_is_no_answer_and_hides_no_pool(
    project: Project, fault: dict[str, Any]
) -> None:
    project.add_fault(**fault)
    project.add_fault(switch="read_lag", seconds=40)

    assert ask(project, "delete-while-creating").verdict == Verdict.NO_ANSWER
    assert project.list_pools() == []


@pytest.mark.parametrize(
    "fault", [{"switch": "read_lag", "seconds": 40}, {"switch": "get_404_after_create", "count": 1}]
)
def test_a_pool_that_cannot_be_read_yet_is_deleted_too(project: Project, fault: dict[str, Any]) -> None:
    """Without an answer that was lost: Ctrl-C may come right after the create."""
    project.add_fault(**fault)
    assert project.lab.create(project.lab.new_name()) == "accepted"

    project.lab.clean()

    assert project.list_pools() == []


def test_a_pool_of_that_name_which_another_run_has_made_stays(project: Project) -> None:
    name, run_before = project.lab.new_name(), project.report.run
    project.report.run = "of-another"
    assert project.lab.create(name) == "accepted"
    project.report.run = run_before

    project.lab.clean()

    assert project.list_pools() == [name]
    project.report.run, project.report.cleaned = "of-another", 0
    project.lab.clean()


def test_a_question_on_a_cluster_without_a_channel_is_not_asked(tmp_path: Any) -> None:
    scenario = tmp_path / "faults.json"
    scenario.write_text('{"release_channel": "UNSPECIFIED"}')
    with serve_gke(tmp_path, "--manual-clock", "--faults", str(scenario)) as ports:
        project = Project(ports["rest"])

        assert ask(project, "auto-upgrade").verdict == Verdict.NOT_ASKED


def test_the_budget_and_the_options_say_what_is_asked() -> None:
    free, paid = choose_questions(("duplicate-create", "stockout"))
    small = Budget(minutes=10, dollars=1)

    def find(question: Any, tpu: str, left: float, dollars: float | None) -> str:
        return find_obstacle(question, tpu=tpu, minutes_left=left, budget=small, dollars=dollars)

    assert find(free, "", 10, None) == ""
    assert "--minutes leaves 0.5" in find(free, "", 0.5, None)
    assert find(paid, "", 50, 0) == "it needs --tpu"
    assert "$2.00, and --dollars allows $1.00" in find(paid, TPU, 50, 2.0)
    assert "price of the slice is unknown" in find(paid, TPU, 50, None)
    assert find(paid, TPU, 50, 0.5) == ""


def test_an_autopilot_cluster_is_refused(monkeypatch: pytest.MonkeyPatch, fake: str, tmp_path: Any) -> None:
    monkeypatch.setattr(Lab, "describe", lambda _lab: {"autopilot": {"enabled": True}})
    put_in_place(monkeypatch, Project(fake).deployment)
    done = run("conformance", "--yes", f"--report={tmp_path / 'r.json'}")

    assert (done.exit_code, "is an Autopilot cluster" in done.stderr) == (2, True), done.stderr


def test_the_names_of_the_questions_differ() -> None:
    names = [each.name for each in list_questions()]

    assert len(names) == len(set(names)) >= 29
