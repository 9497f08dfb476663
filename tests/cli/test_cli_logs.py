"""`logs` shows the newest records in order of time, and says when there are none or more."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli.access.operator_access import Deployment
from cli.explanation import log_lines
from cli.logs.log_search import open_logs
from shared.core.times import format_time
from tests.builders import CLUSTER, NOW
from tests.cli.cli_world import NOBODY, NOWHERE, a_deployment, logs_of, put_in_place, run


def a_record(ago: int, service: str, severity: str, message: str, **more: Any) -> dict[str, Any]:
    function = service.removeprefix("tpu-provisioner-")
    facts = {"severity": severity, "service": service, "version": "1", "message": message}
    facts |= (
        {"logger": "exporter.watch"} if service == "exporter" else {"logger": "functions", "function": function}
    )
    return {"time": format_time(NOW - ago), **facts, **more}


ONE = {"TPU_PROVISIONER_CLUSTERS": json.dumps({CLUSTER: {"endpoint": NOWHERE}})}
CLAIM = {"cluster": CLUSTER, "kind": "JobSet", "namespace": "team", "name": "train"}
RECORDS = [
    a_record(9000, "tpu-provisioner-sweep", "INFO", "swept long ago"),
    a_record(300, "tpu-provisioner-sweep", "INFO", "swept"),
    a_record(200, "tpu-provisioner-provision", "NOTICE", "creating", claim=CLAIM, reason="pool_absent", trace="t"),
    a_record(100, "exporter", "ERROR", "no answer"),
    {"time": format_time(NOW - 50), "severity": "INFO", "message": "another program's"},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("logs")
    (found / "all.log").write_text("".join(json.dumps(each) + "\n" for each in RECORDS))
    return found


@pytest.fixture(scope="module")
def deployment(folder: Path) -> Iterator[Deployment]:
    with logs_of(folder) as logs:
        yield replace(a_deployment(), open_logs=logs)


@pytest.fixture(autouse=True)
def _deployed(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in_place(monkeypatch, deployment)


def messages(*arguments: str) -> list[str]:
    result = run("logs", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return [each["message"] for each in json.loads(result.stdout)]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ((), ["swept", "creating", "no answer"]),
        (("--since=3h",), ["swept long ago", "swept", "creating", "no answer"]),
        (("provision",), ["creating"]),
        (("exporter",), ["no answer"]),
        (("settle",), []),
        (("--severity=notice",), ["creating", "no answer"]),
        (("--severity=error",), ["no answer"]),
        (("-n", "team"), ["creating"]),
        (("-n", "other"), []),
        (("--max=2",), ["creating", "no answer"]),
    ],
)
def test_records_are_chosen_and_shown_in_order_of_time(arguments: tuple[str, ...], found: list[str]) -> None:
    assert messages(*arguments) == found


def test_a_line_names_the_workload_and_the_reason() -> None:
    lines = run("logs").stdout.splitlines()

    assert lines[0].split() == ["TIME", "FROM", "SEVERITY", "WHAT"]
    assert lines[2].endswith("NOTICE     JobSet team/train: creating [pool_absent]")
    assert "trace" not in lines[2]
    assert run("logs", "-o", "wide").stdout.splitlines()[2].endswith('[pool_absent] {"trace": "t"}')


def test_it_says_when_there_are_more_or_none() -> None:
    assert "2 records, and older ones are left out; --max shows more" in run("logs", "--max=2").stderr
    assert run("logs", "settle").stderr.startswith("no records since 2027-01-15T07:00:00Z")


def test_what_comes_later_follows_a_line_each(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late = folder / "late.log"

    def look_twice(look: Any, *, endless: bool) -> Iterator[Any]:
        assert endless
        yield look()
        late.write_text(json.dumps(a_record(1, "exporter", "INFO", "listening")) + "\n")
        yield look()

    monkeypatch.setattr(log_lines, "repeat", look_twice)
    try:
        lines = run("logs", "--follow").stdout.splitlines()
    finally:
        late.unlink()

    assert len(lines) == 1 + 3 + 1
    assert lines[-1].endswith("exporter   INFO   listening")


def test_logs_of_several_projects_are_read_once_each() -> None:
    opened: list[str] = []

    def open_them(project: str) -> Any:
        opened.append(project)
        return open_logs(NOWHERE, NOBODY, project)

    deployment = replace(a_deployment(), open_logs=open_them)
    with pytest.raises(Exception, match=r"Max retries"):
        log_lines.read_lines(deployment, "severity>=INFO", since=NOW, most=1)

    assert opened == ["p"]


OURS = "(" + " OR ".join(f'"blue-{each}"' for each in ("provision", "collect", "settle", "sweep")) + ")"
EXPORTERS = 'resource.labels.cluster_name=("c")'


@pytest.mark.parametrize(
    ("name", "chosen", "added"),
    [
        ("provision", (), ""),
        ("blue-provision", (), f" AND (jsonPayload.service={OURS} OR {EXPORTERS})"),
        (
            "provision",
            (CLUSTER,),
            f' AND (jsonPayload.cluster=("{CLUSTER}") OR jsonPayload.claim.cluster=("{CLUSTER}") OR {EXPORTERS})',
        ),
    ],
)
def test_only_records_of_the_deployment_and_of_the_chosen_clusters_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, name: str, chosen: tuple[str, ...], added: str
) -> None:
    asked: dict[str, Any] = {}

    def list_entries(**question: Any) -> list[Any]:
        asked.update(question)
        return []

    logs: Any = SimpleNamespace(list_entries=list_entries)
    ours = a_deployment(subscriptions={"provision": f"projects/p/subscriptions/{name}"})
    put_in_place(monkeypatch, replace(ours, chosen=chosen, open_logs=lambda _: logs))

    assert run("logs").exit_code == 0
    assert asked["filter_"].partition(" AND severity>=INFO")[2] == added


def test_with_a_chosen_cluster_only_its_records_are_shown() -> None:
    shown = json.loads(run("--cluster=c", "logs", "--json", environ=ONE).stdout)
    assert [each["message"] for each in shown] == ["creating"]


def test_a_cluster_of_the_file_is_chosen_too_unless_the_environment_names_clusters() -> None:
    assert run("config", "set", "clusters", ONE["TPU_PROVISIONER_CLUSTERS"]).exit_code == 0
    assert messages() == ["swept", "creating", "no answer"]
    assert run("logs").stderr.startswith("deployment: the clusters of /")

    assert run("config", "set", "cluster", "c").exit_code == 0

    assert messages() == ["creating"]
    assert run("logs").stderr.startswith("deployment: --cluster=c of /")
    shown = json.loads(run("logs", "--json", environ=ONE).stdout)
    assert [each["message"] for each in shown] == ["swept", "creating", "no answer"]


def test_without_logs_the_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    put_in_place(monkeypatch, a_deployment())

    result = run("logs")

    assert result.exit_code == 2
    assert "TPU_PROVISIONER_LOGGING_ENDPOINT: is empty" in result.stderr
