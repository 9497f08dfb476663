"""`usage` reads creates and deletes page by page, and sums them."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from google.api_core.exceptions import ResourceExhausted
from msgspec import structs

from cli.board.site import Readings
from cli.usage.usage_command import GROUPS, PAGE_SIZE, Account, read_records
from shared.model.times import format_time
from tests.builders import CLUSTER, NOW, a_go_pool, a_pool
from tests.cli.cli_world import a_deployment, logs_of, put_in_place, read_json, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typer.testing import Result

    from cli.access.operator_access import Deployment

HOUR = 3600
CLAIM = {"cluster": CLUSTER, "kind": "JobSet", "name": "train", "owner_uid": "u"}
SHAPE = {"machine_type": "ct6e-standard-4t", "node_count": 4, "chips": 16, "accelerator": "tpu-v6e-slice"}


def a_line(ago: float, message: str, **more: Any) -> dict[str, Any]:
    """A record of a function, written some seconds before now."""
    facts = {"severity": "NOTICE", "service": "provision", "version": "1", "message": message}
    return {"time": format_time(NOW - ago), **facts, **more}


def a_life(
    namespace: str, tier: str, ago: int, seconds: int, reason: str = "workload_over"
) -> Iterator[dict[str, Any]]:
    """The records of a pool that is created, and deleted after some seconds."""
    pool = {"pool": f"{namespace}-0", "claim": CLAIM | {"namespace": namespace}}
    asked = {"decision": "create", "reason": "pool_absent", "waited_seconds": 180}
    facts = {**pool, **SHAPE, "zone": "us-east5-b"}
    yield a_line(ago, "creating", **facts, tier=tier, **asked)
    facts |= {"spot": tier == "spot", "flex_start": False, "reservation": "r" * (tier == "reservation")}
    yield a_line(ago - seconds, "deleting", **facts, decision="delete", reason=reason, pool_seconds=seconds)


def list_lines(*, without: str = "") -> Iterator[dict[str, Any]]:
    """Five hours of a deployment. A pool from the day before is there for the first two."""
    lives = [*a_life("red", "on-demand", 4 * HOUR, 2 * HOUR), *a_life("blue", "spot", 4 * HOUR, HOUR)]
    lives += a_life("old", "reservation", 30 * HOUR, 27 * HOUR)
    lives += a_life("bad", "spot", 2 * HOUR, HOUR // 2, "stockout")
    yield from (each for each in lives if each["message"] != without)
    yield a_line(HOUR, "waiting", pool="red-0", claim=CLAIM, decision="wait", severity="INFO")


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

    assert lines[0].split() == ["NAMESPACE", "POOLS", "CHIP-HOURS", "FAILED", "WAITED", "LIST", "PRICE"]
    assert [line.split() for line in lines[1:6]] == [
        ["bad", "1", "0.00", "8.00", "0.05", "-"],
        ["blue", "1", "16.0", "0.00", "0.05", "$19.44"],
        ["old", "0", "32.0", "0.00", "0.00", "unknown"],
        ["red", "1", "32.0", "0.00", "0.05", "$86.40"],
        ["(all)", "3", "80.0", "8.00", "0.15", "$105.84", "and", "more"],
    ]
    assert "on-demand $86.40, spot $19.44; unknown for 32.0 chip-hours" in lines[-1]


@pytest.mark.parametrize(
    ("by", "groups"),
    [
        ("namespace", ["bad", "blue", "old", "red"]),
        ("workload", ["bad/train", "blue/train", "old/train", "red/train"]),
        ("accelerator", ["tpu-v6e-slice"]),
        ("tier", ["on-demand", "reservation", "spot"]),
    ],
)
def test_rows_are_what_by_says(ask: Any, by: str, groups: list[str]) -> None:
    data = json.loads(ask(f"--by={by}", "-o", "json").stdout)

    assert sorted({each["group"] for each in data["rows"]}) == groups
    assert sum(each["chip_hours"] for each in data["rows"]) == pytest.approx(80)


def test_only_the_clusters_of_the_deployment_have_rows(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "projects/p/locations/l/clusters/other"
    ports = structs.replace(deployment.ports, clusters={other: deployment.ports.clusters[CLUSTER]})
    put_in_place(monkeypatch, replace(deployment, ports=ports))

    data = read_json("usage", "--since=5h")

    assert (data["rows"], data["total"]["pools"]) == ([], 0)


def test_json_and_yaml_have_a_row_for_each_day_and_group(ask: Any) -> None:
    data = json.loads(ask("-o", "json").stdout)

    assert yaml.safe_load(ask("-o", "yaml").stdout)["rows"] == data["rows"]
    assert {(each["day"], each["group"]) for each in data["rows"]} == {
        ("2027-01-15", each) for each in ("bad", "blue", "old", "red")
    }
    assert data["total"]["list_price_dollars"] == {"on-demand": 86.4, "spot": 19.44}


def test_a_pool_whose_end_no_record_tells_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with logged(tmp_path / "logs", list_lines(without="deleting")) as deployment:
        put_in_place(monkeypatch, deployment)
        result = run("usage", "--since=5h")

    assert result.exit_code == 0
    assert "Not known: the chip-hours of 3 pools: GKE sizes elastic ones" in result.stdout


def test_a_pool_that_exists_counts_until_now_and_a_day_is_one_of_utc() -> None:
    midnight = NOW - NOW % 86_400
    account = Account(midnight - HOUR, GROUPS["tier"], [CLUSTER])
    pool = a_pool(spot=True)
    owner = structs.replace(pool.owner, created_at=int(midnight - 2 * HOUR)) if pool.owner else None
    pool.__dict__["owner"] = owner

    account.close(midnight + HOUR, [(CLUSTER, pool)])

    assert {day[-2:]: row["chip_hours"] for (day, _), row in account.rows.items()} == {"14": 16.0, "15": 16.0}
    assert (list(account.sum_groups()), account.unknown_pools) == (["spot"], 0)


def test_a_pool_that_says_neither_its_age_nor_its_size_is_unknown() -> None:
    account = Account(NOW - HOUR, GROUPS["tier"], [CLUSTER])
    account.see(NOW, {"pool": "p", "claim": CLAIM, "decision": "delete", "tier": "spot"})

    account.close(NOW, [(CLUSTER, a_go_pool())])

    assert account.unknown_pools == 2


class RefusingLogs:
    """Cloud Logging that refuses each third page, as it does above 60 reads a minute."""

    def __init__(self, entries: int) -> None:
        self.entries = [self._make(number) for number in range(entries)]
        self.pages = 0

    def _make(self, number: int) -> SimpleNamespace:
        moment = datetime.fromtimestamp(NOW - HOUR + number // 2, UTC)  # two entries have one time
        return SimpleNamespace(timestamp=moment, insert_id=str(number), payload={"number": number})

    def list_entries(self, *, filter_: str, order_by: str, page_size: int) -> Iterator[SimpleNamespace]:
        """Yield the entries from the time of the filter on."""
        assert (order_by, page_size) == ("timestamp asc", PAGE_SIZE)
        begin = datetime.fromisoformat(filter_.split('"')[1])
        for number, entry in enumerate(each for each in self.entries if each.timestamp >= begin):
            if number % page_size == 0:
                self.pages += 1
                if self.pages % 3 == 0:
                    raise ResourceExhausted("Quota exceeded")  # type: ignore[no-untyped-call]
            yield entry


def test_a_refused_page_is_read_again_and_nothing_is_read_twice() -> None:
    logs, waits = RefusingLogs(5 * PAGE_SIZE), list[float]()
    deployment = replace(a_deployment(), open_logs=lambda _project: logs)  # type: ignore[arg-type, return-value]

    found = [fields["number"] for _, fields in read_records(deployment, NOW - HOUR, NOW, wait=waits.append)]

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

    assert list(read_records(deployment, NOW - HOUR, NOW)) == []
    (found,) = asked
    assert found.endswith(' AND jsonPayload.service=("ours-provision" OR "ours-collect")')


def test_the_board_has_the_figures_of_today_and_of_its_namespace_only(deployment: Deployment) -> None:
    usage, of_blue = (Readings(deployment, namespace=each).read()["usage"] for each in ("", "blue"))

    assert usage["failed_chip_hours"] == pytest.approx(8)
    assert usage["chip_hours"] > of_blue["chip_hours"] == pytest.approx(16)
