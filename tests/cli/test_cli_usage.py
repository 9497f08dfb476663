"""`usage` reads creates and deletes page by page, and sums them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from cli.board.site import Readings
from cli.usage.usage_command import GROUPS, Account, read_records
from tests.builders import CLUSTER, NOW, a_go_pool, a_pool
from tests.cli.cli_world import a_deployment, log_entries, put_in_place, run
from tests.cli.scenes import stage

if TYPE_CHECKING:
    from pathlib import Path


HOUR = 3600


def test_a_pool_that_exists_counts_until_now_and_from_the_begin() -> None:
    account = Account(NOW - HOUR, GROUPS["tier"], [CLUSTER])
    pool = a_pool(spot=True)
    owner = structs.replace(pool.owner, created_at=int(NOW - 2 * HOUR)) if pool.owner else None
    pool.__dict__["owner"] = owner

    account.close(NOW, [(CLUSTER, pool), ("another", pool)])

    assert [(group, row["chip_hours"]) for group, row in account.rows.items()] == [("spot", 16.0)]
    assert account.unknown_pools == 0


def test_a_pool_that_says_neither_its_age_nor_its_size_is_unknown() -> None:
    account = Account(NOW - HOUR, GROUPS["tier"], [CLUSTER])
    account.see(NOW, {"pool": "p", "claim": {"cluster": CLUSTER}, "decision": "delete", "chips": 16})

    account.close(NOW, [(CLUSTER, a_go_pool())])

    assert account.unknown_pools == 2


def test_a_month_is_read_page_by_page() -> None:
    open_logs, asked = log_entries(NOW, {"number": 0}, {"number": 1})
    deployment = replace(a_deployment(project="p", name="ours"), open_logs=open_logs)

    found = list(read_records(deployment, NOW - HOUR, NOW))

    assert [(each.at, each.fields) for each in found] == [(NOW, {"number": 0}), (NOW, {"number": 1})]
    ((options,),) = [asked]
    assert (options["order_by"], options["page_size"]) == ("timestamp asc", 1000)
    assert options["filter_"].startswith('timestamp>="2027-01-15T07:00:00.000000Z" AND timestamp<"')
    assert options["filter_"].endswith(' AND jsonPayload.service=("ours-provision" OR "ours-collect")')


def test_the_page_has_the_bars_and_the_table_and_a_hostile_name_is_only_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stage("five hours", tmp_path) as deployment:
        put_in_place(monkeypatch, deployment)
        bars, page = (run("usage", "--since=5h", "-o", form).stdout for form in ("svg", "html"))

    assert bars.strip() in page
    assert '<tr><td data-label="NAMESPACE">&lt;b&gt;bad</td><td data-label="POOLS">1</td>' in page
    assert '<text x="8" y="14">&lt;b&gt;bad: 0.00</text>' in bars
    assert "<p>List prices of 2026-11-23; not your bill; unknown for 32.00 chip-hours.</p>" in page


def test_the_board_has_the_figures_of_today(tmp_path: Path) -> None:
    with stage("five hours", tmp_path) as deployment:
        usage = Readings(deployment).read()["usage"]

    assert usage["failed_chip_hours"] == pytest.approx(8)
    assert usage["chip_hours"] > usage["waited_hours"] > 0
