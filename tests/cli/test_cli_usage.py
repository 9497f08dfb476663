"""`usage` reads creates and deletes page by page, and sums them."""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from msgspec import structs

from cli.board.site import Readings
from cli.usage.chart import write_html
from cli.usage.usage_command import GROUPS, Account, list_columns, read_records
from shared.model.times import format_time
from tests.builders import CLUSTER, NOW, a_go_pool, a_pool
from tests.cli.cli_world import a_deployment, logs_of, put_in_place, read_json, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typer.testing import Result

    from cli.access.connections import Deployment

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
    assert "not your bill; unknown for 32.0 chip-hours" in lines[-1]


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


def test_json_and_yaml_are_the_same_and_have_the_sums(ask: Any) -> None:
    data = json.loads(ask("-o", "json").stdout)

    assert yaml.safe_load(ask("-o", "yaml").stdout) == data
    assert data["total"]["list_price_dollars"] == 105.84


def test_a_picture_has_a_bar_for_each_group_and_loads_nothing(ask: Any) -> None:
    page, svg = ask("-o", "html").stdout, ask("-o", "svg").stdout

    assert svg.startswith('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 390 136" role="img"')
    assert re.findall(r'width="([\d.]+)" height', svg) == ["0.0", "187.0", "374.0", "374.0"]
    assert svg.strip() in page
    assert '<td data-label="CHIP-HOURS">80.0</td>' in page
    assert re.search(r"<script|src=|href=|@import|url\(", page) is None


def test_a_hostile_name_is_only_text_in_a_picture() -> None:
    hostile = "<img src=x onerror=alert(1)>"
    bars, rows = [(hostile, 1.0, "1.00")], [(hostile, Counter(pools=1))]

    page = write_html("t", bars, list_columns("namespace"), rows, [hostile])

    assert page.count("&lt;img src=x") == 3
    assert "<img" not in page


def test_a_pool_whose_end_no_record_tells_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with logged(tmp_path / "logs", list_lines(without="deleting")) as deployment:
        put_in_place(monkeypatch, deployment)
        result = run("usage", "--since=5h")

    assert result.exit_code == 0
    assert "Not known: the chip-hours of 3 pools: GKE sizes elastic ones" in result.stdout


def test_a_pool_that_exists_counts_until_now_and_from_the_begin() -> None:
    account = Account(NOW - HOUR, GROUPS["tier"], [CLUSTER])
    pool = a_pool(spot=True)
    owner = structs.replace(pool.owner, created_at=int(NOW - 2 * HOUR)) if pool.owner else None
    pool.__dict__["owner"] = owner

    account.close(NOW, [(CLUSTER, pool), ("another", pool)])

    assert [(group, row["chip_hours"]) for group, row in account.list_rows()] == [("spot", 16.0)]
    assert account.unknown_pools == 0


def test_a_pool_that_says_neither_its_age_nor_its_size_is_unknown() -> None:
    account = Account(NOW - HOUR, GROUPS["tier"], [CLUSTER])
    account.see(NOW, {"pool": "p", "claim": CLAIM, "decision": "delete", "tier": "spot"})

    account.close(NOW, [(CLUSTER, a_go_pool())])

    assert account.unknown_pools == 2


def test_a_month_is_read_page_by_page() -> None:
    asked = list[dict[str, Any]]()
    moment = datetime.fromtimestamp(NOW, UTC)

    def list_entries(**options: Any) -> Iterator[SimpleNamespace]:
        asked.append(options)
        yield from (SimpleNamespace(timestamp=moment, payload={"number": number}) for number in range(2))

    client: Any = SimpleNamespace(list_entries=list_entries)
    deployment = replace(a_deployment(project="p", name="ours"), open_logs=lambda _project: client)

    found = list(read_records(deployment, NOW - HOUR, NOW))

    assert found == [(NOW, {"number": 0}), (NOW, {"number": 1})]
    ((options,),) = [asked]
    assert (options["order_by"], options["page_size"]) == ("timestamp asc", 1000)
    assert options["filter_"].startswith('timestamp>="2027-01-15T07:00:00.000000Z" AND timestamp<"')
    assert options["filter_"].endswith(' AND jsonPayload.service=("ours-provision" OR "ours-collect")')


def test_the_board_has_the_figures_of_today_and_of_its_namespace_only(deployment: Deployment) -> None:
    usage, of_blue = (Readings(deployment, namespace=each).read()["usage"] for each in ("", "blue"))

    assert usage["failed_chip_hours"] == pytest.approx(8)
    assert usage["chip_hours"] > of_blue["chip_hours"] == pytest.approx(16)
