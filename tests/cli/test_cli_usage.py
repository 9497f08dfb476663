"""`usage` reads the log page by page, shows it in each format, and says what it cannot know."""

from __future__ import annotations

import csv
import io
import json
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from google.api_core.exceptions import TooManyRequests

from cli.board.readings import Readings
from cli.usage import usage_command
from cli.usage.record_stream import PAGE_SIZE, Span, count_records, read_records
from shared.model.times import format_time
from tests.builders import CLUSTER, NOW
from tests.cli.cli_world import CannedRest, a_deployment, logs_of, put_in_place, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typer.testing import Result

    from cli.access.operator_access import Deployment
    from cli.usage.record_stream import Record

HOUR = 3600
CLAIM = {"cluster": CLUSTER, "kind": "JobSet", "name": "train", "owner_uid": "u", "slice": "s"}
SHAPE = {"machine_type": "ct6e-standard-4t", "node_count": 4, "chips": 16, "accelerator": "tpu-v6e-slice"}


def a_line(ago: float, message: str, **more: Any) -> dict[str, Any]:
    """A record of a function, written some seconds before now."""
    facts = {"severity": "NOTICE", "service": "sweep", "version": "1", "message": message, "function": "sweep"}
    return {"time": format_time(NOW - ago), **facts, **more}


def a_life(namespace: str, tier: str, ago: int, seconds: int) -> Iterator[dict[str, Any]]:
    """The records of a slice that gets a pool, and ends after some seconds."""
    pool = {"pool": f"{namespace}-0", "claim": CLAIM | {"namespace": namespace}}
    where = {"tier": tier, "zone": "us-east5-b", "labels": {"team": f"team-of-{namespace}"}, "attempt": 0}
    asked = {"subject": "Pod x/y", "decision": "create", "reason": "pool_absent", "waited_seconds": 1}
    yield a_line(ago, "creating", **pool, **SHAPE, **where, **asked)
    about = {"subject": f"node pool {namespace}-0"}
    yield a_line(ago - 60, "made", **pool, **about, decision="keep", reason="pool_created", function="settle")
    ended = {"decision": "delete", "reason": "workload_over", "function": "collect"}
    yield a_line(ago - seconds, "deleting", **pool, **about, **ended)


def list_lines(*, without: str = "") -> Iterator[dict[str, Any]]:
    """Five hours of a deployment. A pool from the day before is there for the first two."""
    lives = [*a_life("red", "on-demand", 4 * HOUR, 2 * HOUR), *a_life("blue", "spot", 4 * HOUR, HOUR)]
    lives += a_life("old", "reservation", 30 * HOUR, 27 * HOUR)
    yield from (each for each in lives if each["message"] != without)
    for minute in range(300):
        counts = {"keep": 3, "errors": 0}
        yield a_line(5 * HOUR - 60 * minute, "swept", severity="INFO", counts=counts, reasons={"owner_live": 0})


@contextmanager
def logged(folder: Path, lines: Iterator[dict[str, Any]]) -> Iterator[Deployment]:
    """A deployment whose logs have these lines."""
    folder.mkdir()
    (folder / "all.log").write_text("".join(json.dumps(each) + "\n" for each in lines))
    with logs_of(folder) as logs:
        yield replace(a_deployment(), open_logs=logs)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with logged(tmp_path_factory.mktemp("usage") / "logs", list_lines()) as found:
        yield found


@pytest.fixture
def ask(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Any:
    put_in_place(monkeypatch, deployment)

    def ask(*arguments: str) -> Result:
        result = run("usage", "--since=5h", *arguments)
        assert result.exit_code == 0, result.output
        return result

    return ask


def test_the_table_has_a_row_for_each_namespace_and_their_sum(ask: Any) -> None:
    lines = ask().stdout.splitlines()

    assert lines[0].split()[:7] == ["NAMESPACE", "SLICES", "USED", "IDLE", "STARTING", "WASTED", "UNKNOWN"]
    assert [line.split()[:5] for line in lines[1:5]] == [
        ["blue", "1", "15.7", "0.00", "0.27"],
        ["old", "0", "32.0", "0.00", "0.00"],
        ["red", "1", "31.7", "0.00", "0.27"],
        ["(all)", "2", "79.5", "0.00", "0.53"],
    ]
    assert "List price of used and idle chip-hours" in lines[-1]
    assert "on-demand $85.68, spot $19.12; unknown for 32.0 chip-hours" in lines[-1]


@pytest.mark.parametrize(
    ("by", "groups"),
    [
        ("namespace", ["blue", "old", "red"]),
        ("workload", ["blue/train", "old/train", "red/train"]),
        ("accelerator", ["tpu-v6e-slice"]),
        ("tier", ["on-demand", "reservation", "spot"]),
        ("label:team", ["team-of-blue", "team-of-old", "team-of-red"]),
        ("label:nobody/has-it", [""]),
    ],
)
def test_rows_are_what_by_says(ask: Any, by: str, groups: list[str]) -> None:
    data = json.loads(ask(f"--by={by}", "--json").stdout)

    assert [each["group"] for each in data["groups"]] == groups
    assert sum(each["chip_hours"]["used"] for each in data["groups"]) == pytest.approx(79.4667, abs=0.001)


def test_a_cluster_that_is_not_chosen_has_no_row_but_its_records_are_read(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in_place(monkeypatch, replace(deployment, chosen=("projects/p/locations/l/clusters/other",)))

    data = json.loads(run("usage", "--since=5h", "--json").stdout)

    assert (data["groups"], data["total"]["slices"]) == ([], 0)
    assert data["not_known"]["records_read"] == 307
    assert Readings(replace(deployment, chosen=("x",))).read()["usage"]["workloads"] == {}


def test_json_yaml_and_csv_have_the_same_sums(ask: Any) -> None:
    data = json.loads(ask("--json").stdout)
    lines = list(csv.DictReader(io.StringIO(ask("-o", "csv").stdout)))

    assert yaml.safe_load(ask("-o", "yaml").stdout)["groups"] == data["groups"]
    assert sum(float(line["used_chip_hours"]) for line in lines) == pytest.approx(
        data["total"]["chip_hours"]["used"], abs=0.001
    )
    assert {line["group"] for line in lines} == {"red", "blue", "old"}
    assert data["not_known"]["pools_without_size"] == 0
    assert data["total"]["list_price_dollars"] == {"on-demand": 85.68, "spot": 19.12}


def test_it_says_before_it_starts_that_the_number_of_records_is_not_known(ask: Any) -> None:
    assert ask().stderr.startswith("reading the functions' log records since 2027-01-15T")


def test_a_long_read_shows_its_progress(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(usage_command, "PROGRESS_SECONDS", 0.0)
    many: list[Record] = [(NOW + number, {}) for number in range(2000)]

    assert list(usage_command.follow(many, 4000)) == many
    assert capsys.readouterr().err.splitlines() == [
        "read 1,000 of about 4,000 records, up to 2027-01-15T08:16:39Z",
        "read 2,000 of about 4,000 records, up to 2027-01-15T08:33:19Z",
    ]


def test_a_creation_whose_record_is_missing_is_told_as_a_pool_of_unknown_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with logged(tmp_path / "logs", list_lines(without="creating")) as deployment:
        put_in_place(monkeypatch, deployment)
        result = run("usage", "--since=5h")

    assert result.exit_code == 1
    assert "Not known: the size of 3 pools" in result.stdout


def test_hours_before_the_first_record_are_told_as_not_known(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in_place(monkeypatch, deployment)

    result = run("usage", "--since=10h")

    assert result.exit_code == 1
    assert "Not known: no sweep is in the logs from 2027-01-14T22:00:00Z to 2027-01-15T03:00:00Z." in result.stdout


class RefusingLogs:
    """Cloud Logging that refuses each third page, as it does above 60 reads a minute."""

    def __init__(self, entries: int) -> None:
        self.entries = [self._make(number) for number in range(entries)]
        self.pages = 0

    def _make(self, number: int) -> SimpleNamespace:
        moment = datetime.fromtimestamp(NOW - HOUR + number // 2, UTC)  # two entries have one time
        return SimpleNamespace(
            timestamp=moment, insert_id=str(number), payload={"message": "swept", "number": number}
        )

    def list_entries(self, *, filter_: str, order_by: str, page_size: int) -> Iterator[SimpleNamespace]:
        """Yield the entries from the time of the filter on."""
        assert (order_by, page_size) == ("timestamp asc", PAGE_SIZE)
        if "decision" in filter_:
            return
        begin = datetime.fromisoformat(filter_.split('"')[1])
        for number, entry in enumerate(each for each in self.entries if each.timestamp >= begin):
            if number % page_size == 0:
                self.pages += 1
                if self.pages % 3 == 0:
                    raise TooManyRequests("Quota exceeded")  # type: ignore[no-untyped-call]
            yield entry


def test_a_refused_page_is_read_again_and_nothing_is_read_twice() -> None:
    logs, waits = RefusingLogs(5 * PAGE_SIZE), list[float]()
    deployment = replace(a_deployment(), open_logs=lambda _project: logs)  # type: ignore[arg-type, return-value]
    span = Span(begin=NOW - HOUR, end=NOW)

    found = [fields["number"] for _, fields in read_records(deployment, span, earlier=False, wait=waits.append)]

    assert found == list(range(5 * PAGE_SIZE))
    assert len(waits) == logs.pages // 3 > 0


def test_records_of_another_deployment_in_the_project_are_not_read() -> None:
    asked = list[str]()

    def list_entries(*, filter_: str, **_options: Any) -> list[Any]:
        asked.append(filter_)
        return []

    client: Any = SimpleNamespace(list_entries=list_entries)
    names = {"provision": "projects/p/subscriptions/ours-provision"}
    deployment = replace(a_deployment(subscriptions=names), open_logs=lambda _project: client)

    assert list(read_records(deployment, Span(begin=NOW - HOUR, end=NOW))) == []
    assert len(asked) == 3
    functions = ("provision", "collect", "settle", "sweep")
    ours = " OR ".join(f'"ours-{each}"' for each in functions)
    assert all(each.endswith(f" AND jsonPayload.service=({ours})") for each in asked)


def test_the_number_of_records_is_that_of_the_metrics_of_the_deployment(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitoring = CannedRest(b'{"timeSeries":[{"points":[{"value":{"int64Value":"4000"}}]}]}')
    names = {"provision": "projects/p/subscriptions/ours-provision"}
    counted = replace(a_deployment(subscriptions=names), monitoring=monitoring)

    assert count_records(counted, Span(begin=NOW - HOUR, end=NOW)) == 8000
    assert "user%2Fours%2Fdecisions" in monitoring.asked[0]
    assert "user%2Fours%2Fsweeps" in monitoring.asked[1]

    put_in_place(monkeypatch, replace(deployment, monitoring=monitoring))
    result = run("usage", "--since=5h")

    assert "about 8000 records" in result.stderr
    assert "missing: 307 of 8,000 records are in the logs" in result.stderr
    assert result.exit_code == 1


def test_the_board_has_the_figures_of_today_and_of_each_workload(deployment: Deployment) -> None:
    readings = Readings(deployment)

    usage = readings.read()["usage"]

    assert usage["workloads"].keys() == {"red/train", "blue/train", "old/train"}
    assert usage["workloads"]["blue/train"]["chip_hours"]["used"] == pytest.approx(15.73, abs=0.01)
    assert usage["total"]["chip_hours"]["used"] == pytest.approx(79.47, abs=0.01)
    assert usage["total"]["chip_hours"]["unknown"] == pytest.approx(16 * 3, abs=0.1)  # the logs begin at 3 o'clock


def test_the_board_adds_only_new_records_to_those_of_today(tmp_path: Path) -> None:
    with logged(tmp_path / "logs", list_lines()) as deployment:
        readings = Readings(deployment)
        before = readings.read()["usage"]
        readings.forget_dead_letters()

        assert readings.read()["usage"] == before


def test_the_board_of_a_namespace_has_the_figures_of_its_workloads_only(deployment: Deployment) -> None:
    usage = Readings(deployment, namespace="blue").read()["usage"]

    assert usage["workloads"].keys() == {"blue/train"}
    assert usage["total"] == usage["workloads"]["blue/train"]
