"""The page of kinds has a row for each kind of the table, with its API."""

from pathlib import Path

from shared.kinds.table import KINDS

PAGE = Path(__file__).resolve().parents[2] / "docs/kinds.md"


def test_the_page_has_every_kind_with_its_api_in_the_order_of_the_table() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if "` | " in line and line.count("|") == 7]

    assert [row.partition("|")[2].split("|")[:2] for row in rows] == [
        [f" {kind.name} ", f" `{kind.api_version}` "] for kind in KINDS
    ]
