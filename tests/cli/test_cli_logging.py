"""A stand-in for reading Cloud Logging: strict in what it understands, true in what it shows."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import urllib3
from typer.testing import CliRunner

from cli.access.cli_settings import OperatorSettings, name_services
from cli.logs.log_search import Answered, Swept, find_last_report, find_last_sweep, read_answers, read_logs
from shared.core.times import parse_time
from standins.logging.__main__ import app
from standins.logging.filters import BadFilter, parse_filter
from standins.logging.server import LoggingServer, Question
from standins.processes.stand_ins import PATIENCE_SECONDS, ROOT, wait_until
from tests.builders import CLUSTER, NOW
from tests.cli.cli_world import logs_of
from tests.contract.stand_ins import stand_in

FIRST = {"severity": "INFO", "time": "2026-01-01T00:00:01Z", "message": "a", "claim": {"name": "x"}, "n": 1}
SECOND = {"severity": "ERROR", "time": "2026-01-01T00:00:02Z", "message": "b", "claim": {"name": "y"}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [json.dumps(FIRST), "not JSON", json.dumps(SECOND), '{"half a line']
    (tmp_path / "provision.log").write_text("\n".join(lines))
    return tmp_path


def ask(folder: Path, **question: Any) -> dict[str, Any]:
    return LoggingServer(folder, "p").answer(Question(resource_names=["projects/p"], **question))


def messages(answer: dict[str, Any]) -> list[str]:
    return [entry["jsonPayload"]["message"] for entry in answer.get("entries", [])]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('jsonPayload.claim.name="x"', ["a"]),
        ('jsonPayload.claim.name = "x" AND severity>=INFO', ["a"]),
        ("severity>=WARNING", ["b"]),
        ('timestamp<"2026-01-01T00:00:02Z" AND severity=INFO', ["a"]),
        ('timestamp>="2026-01-01T00:00:01Z"\nseverity>=INFO', ["a", "b"]),
        ('jsonPayload.message!="a" severity>DEFAULT', ["b"]),
        ("jsonPayload.n=1", ["a"]),
        ("jsonPayload.n:*", ["a"]),
        ('resource.labels.service_name:"prov" AND severity=ERROR', ["b"]),
        ('jsonPayload.claim.name="z"', []),
        ('jsonPayload.claim.name=("x")', ["a"]),
        ('jsonPayload.claim.name=("z" OR "y") AND severity=ERROR', ["b"]),
        ('jsonPayload.claim.name=("x" OR "y")', ["a", "b"]),
        ('(jsonPayload.n=1 OR jsonPayload.claim.name=("z" OR "y")) AND severity>=INFO', ["a", "b"]),
        ("( jsonPayload.n=2 OR jsonPayload.n=1 ) severity=ERROR", []),
        ("severity=INFO (jsonPayload.n=1)", ["a"]),
    ],
)
def test_comparisons_joined_by_and_choose(folder: Path, text: str, found: list[str]) -> None:
    assert messages(ask(folder, filter=text)) == found


@pytest.mark.parametrize(
    "text",
    [
        *("a", 'a="1" OR b="2"', 'NOT a="1"', 'a=~"x"', "severity>=LOUD", 'timestamp>="now"', 'a="1" AND'),
        *('(a="1"', '(a="1" AND b="2")', '(a="1" OR )', '(a="1" OR (b="2"))', "()"),
        *("a=()", 'a=("1" "2")', 'a=("1" AND "2")', 'a!=("1" OR "2")', 'a=("1"'),
    ],
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(BadFilter):
        parse_filter(text)


def test_an_entry_is_shown_as_cloud_logging_shows_it(folder: Path) -> None:
    (entry,) = ask(folder, filter="severity=INFO")["entries"]

    assert (entry["timestamp"], entry["severity"]) == (FIRST["time"], "INFO")
    assert entry["jsonPayload"] == {"message": "a", "claim": {"name": "x"}, "n": 1}
    assert entry["resource"]["labels"]["service_name"] == "provision"


def test_a_line_that_is_no_json_is_text_and_half_a_line_is_none(folder: Path) -> None:
    found = ask(folder)["entries"]

    assert len(found) == 3
    assert [entry["textPayload"] for entry in found if "textPayload" in entry] == ["not JSON"]


def test_pages_follow_each_other_in_the_order_asked_for(folder: Path) -> None:
    question = {"filter": "severity>=INFO", "order_by": "timestamp desc", "page_size": 1}
    first = ask(folder, **question)
    second = ask(folder, **question, page_token=first["nextPageToken"])

    assert (messages(first), messages(second), "nextPageToken" in second) == (["b"], ["a"], False)


@pytest.mark.parametrize("wrong", [{"order_by": "severity"}, {"page_size": 0}, {"page_token": "x"}])
def test_a_wrong_field_is_refused(folder: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(BadFilter):
        ask(folder, **wrong)


def test_other_projects_have_no_logs(folder: Path) -> None:
    assert LoggingServer(folder, "p").answer(Question(resource_names=["projects/q"])) == {}


def test_over_http_a_wrong_question_is_an_error_of_google(folder: Path, tmp_path_factory: Any) -> None:
    options = (f"--folder={folder}", "--project=p")
    with stand_in(tmp_path_factory.mktemp("logging"), "standins.logging", "serve", *options) as ports:
        url = f"{ports['rest']}/v2/entries:list"
        good = urllib3.request("POST", url, json={"resourceNames": ["projects/p"], "filter": "severity=ERROR"})
        wrong = urllib3.request("POST", url, json={"resourceNames": ["projects/p"], "colour": "red"})

    assert messages(good.json()) == ["b"]
    assert (wrong.status, wrong.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")


def test_google_s_client_reads_what_it_shows(tmp_path: Path) -> None:
    claim = {"cluster": CLUSTER, "namespace": "n", "name": "x"}
    records = [
        {"severity": "INFO", "time": f"2027-01-15T07:00:0{number}Z", "message": f"m{number}", "claim": claim}
        for number in range(3)
    ]
    swept: dict[str, Any] = {
        "severity": "INFO",
        "time": "2027-01-15T07:30:00Z",
        "message": "swept",
        "function": "sweep",
    }
    swept |= {"function": "sweep", "service": "ours-sweep", "counts": {"errors": 2}}
    of_others = {**swept, "time": "2027-01-15T07:45:00Z", "service": "more-ours-sweep"}
    fields = {"decision": "none", "reason": "throttled", "message": "no", "pool": "p-1", "zone": "z"}
    fields |= {"failure": "f"}
    throttled: dict[str, Any] = {"severity": "WARNING", "time": "2027-01-15T07:31:00Z", "claim": claim, **fields}
    published = {"severity": "INFO", "time": "2027-01-15T07:32:00Z", "message": "published", "cluster": CLUSTER}
    of_another = {**published, "time": "2027-01-15T07:50:00Z", "cluster": f"{CLUSTER}-b"}
    lines = [json.dumps(each) for each in (*records, swept, of_others, throttled, published, of_another)]
    (tmp_path / "sweep.log").write_text("\n".join(lines) + "\n")
    own = OperatorSettings(subscriptions={"provision": "projects/p/subscriptions/ours-provision"})
    with logs_of(tmp_path) as logs:
        entries = read_logs(logs, CLUSTER, "n", "x", now=NOW)
        ours = name_services(own, "sweep")
        last_sweep = find_last_sweep(logs, CLUSTER, now=NOW, ours=ours)
        last_of_all = find_last_sweep(logs, CLUSTER, now=NOW)
        (answer,) = read_answers(logs, CLUSTER, now=NOW)
        last_report = find_last_report(logs, CLUSTER, now=NOW)

    assert last_report == parse_time("2027-01-15T07:32:00Z")
    assert [each.text for each in entries] == ["none: no [throttled]", ": m2 []", ": m1 []", ": m0 []"]
    assert last_sweep == Swept(at=parse_time("2027-01-15T07:30:00Z") or 0, errors=2)
    assert last_of_all == Swept(at=parse_time("2027-01-15T07:45:00Z") or 0, errors=2)
    assert answer == Answered(at=parse_time("2027-01-15T07:31:00Z") or 0, claim=claim, **fields)


def test_it_ends_cleanly_when_asked_to(folder: Path, tmp_path_factory: Any) -> None:
    ports = tmp_path_factory.mktemp("ports") / "ports.json"
    command = [sys.executable, "-m", "standins.logging", "serve", f"--folder={folder}", "--project=p"]
    process = subprocess.Popen(
        [*command, f"--ports-file={ports}"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    wait_until(ports.exists)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 0
    assert [json.loads(line)["message"] for line in output.splitlines()][-1] == "stopped"


def test_an_error_long_after_the_start_is_not_told_as_a_wrong_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_given: object, **_named: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("standins.logging.__main__.log_as_json", lambda: None)
    monkeypatch.setattr("standins.logging.__main__.serve_until_signal", fail)

    result = CliRunner().invoke(app, ["serve", f"--folder={tmp_path}", "--project=p"])

    assert (result.exit_code, result.stderr) == (1, "")
