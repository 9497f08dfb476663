"""The questions of ``conformance`` about a deployment: on the local stack, and on made answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from google.cloud.logging_v2._helpers import entry_from_resource

from cli.conformance import deployment_questions
from cli.conformance.asking_google import Budget, ask_all
from cli.conformance.conformance_run import choose_questions
from cli.conformance.questions import Verdict
from cli.conformance.report import Report
from demo.stack.operator_environment import operator_environment
from demo.stack.stack import Stack
from standins.fakegke.log_sink import build_entry
from standins.fakegke.model.node_events import OperationMoved
from standins.fakegke.resource_names import ClusterName
from tests.builders import CLUSTER
from tests.cli.cli_world import CannedRest, run
from tests.cli.conformance_world import Project


def ask(project: Project, name: str, **parts: Any) -> Any:
    """Return the answer to one question, with other parts of the deployment."""
    project.deployment = replace(project.deployment, **parts)
    lab, asked = project.open_lab(), choose_questions((name,))
    ask_all(lab, asked, Budget(minutes=100, dollars=0), dollars=0.0)
    return project.report.answers[name]


@pytest.mark.slow
def test_a_whole_stack_answers(stack: Stack, tmp_path: Path) -> None:
    environ = operator_environment(stack.layout, stack.settings, stack.addresses)
    names = ("push", "ingress", "metric-names", "user-name", "missing-pool")
    report = tmp_path / "report.json"
    asked = [f"--only={name}" for name in names]

    done = run("conformance", "--yes", f"--report={report}", *asked, environ=environ)

    answers = json.loads(report.read_text())["answers"]
    assert {name: answers[name]["verdict"] for name in names if name != "user-name"} == {
        "push": "as assumed",
        "ingress": "differs",  # the stack has no front end that asks for tokens
        "metric-names": "not asked",
        "missing-pool": "as assumed",
    }, answers
    assert done.exit_code == 1
    assert "What this may break" in report.with_suffix(".md").read_text()


def entry_about(name: str, *, ended: bool) -> dict[str, Any]:
    """An entry of the audit log, as Cloud Logging answers it."""
    moved = OperationMoved(
        cluster=ClusterName("p", "us-east5", "c"),
        pool=name,
        operation="operation-1",
        kind="CREATE_NODE_POOL",
        ended=ended,
        at="2026-11-26T10:00:00Z",
        code=0,
        text="no",
    )
    return build_entry(moved, "id")


def logs_of(read: Callable[[str], list[dict[str, Any]]]) -> Any:
    """The logs of a project, which answer a filter with entries of Google's own class."""

    def list_entries(*, filter_: str, **_options: Any) -> list[Any]:
        client = SimpleNamespace(project="p", logger=lambda _name: None)
        return [entry_from_resource(each, client, {}) for each in read(filter_)]  # type: ignore[no-untyped-call]

    return lambda _project: SimpleNamespace(list_entries=list_entries)


def named(wanted: str) -> str:
    return wanted.partition('"/nodePools/')[2].partition('"')[0]


def test_an_audit_entry_is_read_as_the_functions_read_it(fake: str) -> None:
    def read(wanted: str) -> list[dict[str, Any]]:
        return [entry_about(named(wanted), ended=each) for each in (True, False)]

    answer = ask(Project(fake), "audit-entry", open_logs=logs_of(read))

    assert (answer.verdict, answer.details["type"]) == (Verdict.AS_ASSUMED, "gke_nodepool")
    assert answer.details["entries"] == "2"


def test_an_audit_entry_of_another_form_and_a_late_one_are_told(fake: str) -> None:
    def other(wanted: str) -> list[dict[str, Any]]:
        return [entry_about(named(wanted), ended=True) | {"resource": {"type": "gke_cluster", "labels": {}}}]

    assert ask(Project(fake), "audit-entry", open_logs=logs_of(other)).seen.startswith("read not as the end")

    project = Project(fake)
    begun = project.time + 150.0

    def late(wanted: str) -> list[dict[str, Any]]:
        return [entry_about(named(wanted), ended=True)] if project.time > begun else []

    answer = ask(project, "audit-entry", open_logs=logs_of(late))
    assert answer.seen == "read as the end of its creation, later than a minute"
    assert answer.faults[0]["switch"] == "audit_entries"
    assert ask(Project(fake), "audit-entry", open_logs=logs_of(lambda _wanted: [])).verdict == Verdict.NO_ANSWER


def test_what_a_deployment_lacks_is_not_asked(fake: str) -> None:
    project = Project(fake)

    for name in ("audit-entry", "push", "ingress", "metric-names"):
        assert ask(project, name).verdict == Verdict.NOT_ASKED, name


class Answering:
    """A client of HTTP, or of Kubernetes, with one answer."""

    def __init__(self, status: int = 200, data: bytes = b"") -> None:
        self.status, self.data = status, data

    def request(self, _verb: str, _url: str, **_options: Any) -> Answering:
        return self

    def create(self, _path: str, _body: Any, kind: Any) -> Any:
        return msgspec.convert({"status": {"userInfo": {"username": self.data.decode()}}}, kind)


@pytest.mark.parametrize(
    ("status", "data", "verdict"),
    [
        (403, b"Forbidden", Verdict.AS_ASSUMED),
        (404, b"<title>Error 404 (Not Found)!!1</title>", Verdict.AS_ASSUMED),
        (404, b"<title>404 Not Found</title>", Verdict.DIFFERS),
        (200, b"", Verdict.DIFFERS),
    ],
)
def test_a_function_that_can_be_called_from_outside_is_told(
    fake: str, status: int, data: bytes, verdict: Verdict
) -> None:
    project = Project(fake, function_uris={"sweep": "https://sweep"})

    assert ask(project, "ingress", http=Answering(status, data)).verdict == verdict


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        ('{"data": {"result": [{"value": [1, "58.9"]}]}}', Verdict.AS_ASSUMED),
        ('{"data": {"result": [{"value": [1, "0"]}]}}', Verdict.DIFFERS),
        ('{"data": {"result": []}}', Verdict.DIFFERS),
    ],
)
def test_a_metric_of_another_name_counts_nothing(fake: str, body: str, verdict: Verdict) -> None:
    monitoring = CannedRest(body.encode())

    assert ask(Project(fake), "metric-names", monitoring=monitoring).verdict == verdict
    assert "user_tpu_provisioner_sweeps" in monitoring.asked[0]


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("sweep@p.iam.gserviceaccount.com", Verdict.AS_ASSUMED),
        ("1122334455", Verdict.DIFFERS),
        ("system:serviceaccount:n:sweep", Verdict.DIFFERS),
    ],
)
def test_the_name_by_which_the_cluster_knows_the_caller_is_told(fake: str, name: str, verdict: Verdict) -> None:
    answer = ask(Project(fake), "user-name", apis={CLUSTER: Answering(data=name.encode())})

    assert (answer.verdict, answer.details["user"]) == (verdict, name)


@pytest.mark.parametrize(
    ("reason", "verdict"),
    [("demand_gone", Verdict.AS_ASSUMED), ("permission_denied", Verdict.DIFFERS), ("", Verdict.NO_ANSWER)],
)
def test_the_functions_answer_to_the_event_is_told(
    fake: str, monkeypatch: pytest.MonkeyPatch, reason: str, verdict: Verdict
) -> None:
    monkeypatch.setattr(deployment_questions, "_publish", lambda _lab, _message: "1")

    def read(wanted: str) -> list[dict[str, Any]]:
        fields = {"reason": reason, "message": "m"}
        return [{"logName": "projects/p/logs/l", "jsonPayload": fields}] * bool(reason and "event_id" in wanted)

    assert ask(Project(fake), "push", open_logs=logs_of(read)).verdict == verdict


def test_a_report_that_another_version_wrote_keeps_its_answers(fake: str) -> None:
    project = Project(fake)
    project.report = Report(cluster=CLUSTER, version="0.1.0")

    assert ask(project, "missing-pool").verdict == Verdict.AS_ASSUMED
