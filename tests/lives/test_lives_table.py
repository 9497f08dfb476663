"""The documented table says what the catalogue says of every life, and shows runs that kept it."""

from pathlib import Path

import pytest

from demo.stack.clusters import ClusterKind
from tests.lives.catalogue import LIVES
from tests.lives.results import NotMeasured, keep, read
from tests.lives.running import Measured, Run
from tests.lives.table import (
    BEGIN,
    DOCUMENT,
    END,
    SLICES_BEGIN,
    SLICES_END,
    STRATEGIES,
    Row,
    Seen,
    parse,
    promise,
    render,
)


def test_the_document_has_one_row_for_each_life_and_says_what_the_catalogue_says() -> None:
    rows = parse(DOCUMENT.read_text())
    assert [row.promised for row in rows.values()] == [promise(life) for life in LIVES]


def test_the_documented_runs_stayed_within_what_is_promised() -> None:
    rows = parse(DOCUMENT.read_text())
    over = {life.name: rows[life.name].seen for life in LIVES if max(_known(rows[life.name])) > life.calls_most}
    assert over == {}


def test_a_life_is_measured_on_each_cluster_that_plays_it() -> None:
    rows = parse(DOCUMENT.read_text())
    assert {life.name: len(_known(rows[life.name])) for life in LIVES} == {
        life.name: 1 if life.real_only else 2 for life in LIVES
    }


def _known(row: Row) -> list[int]:
    return [calls for calls in row.seen if calls is not None]


def test_a_table_is_read_back_as_it_was_written() -> None:
    seen: dict[str, Seen] = {
        life.name: (None if life.real_only else number, number + 1) for number, life in enumerate(LIVES)
    }
    rows = parse(f"# Lives\n{BEGIN}\n{render(seen)}{END}\nmore\n")
    assert {name: row.seen for name, row in rows.items()} == seen
    assert [row.promised for row in rows.values()] == [promise(life) for life in LIVES]


def test_the_documented_pinned_slices_are_all_on_their_own_pools() -> None:
    _, _, rest = DOCUMENT.read_text().partition(SLICES_BEGIN)
    table, _, _ = rest.partition(SLICES_END)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()[2:]]
    assert [(row[0], row[1]) for row in rows] == [
        (text, str(kind)) for text in STRATEGIES.values() for kind in (ClusterKind.EMBEDDED, ClusterKind.REAL)
    ]
    assert [row[2:] for row in rows if row[0] == "node selector"] == [["100", "100", "0", "0", "0"]] * 2
    assert {row[-1] for row in rows} == {"0"}


def test_only_a_run_whose_lives_were_all_lived_is_kept(tmp_path: Path) -> None:
    measured = {
        "completed": Measured(end="Completed", pools=1, creates=1, deletes=1, calls={"CreateNodePool OK": 1})
    }
    broken = Run(str(ClusterKind.REAL), measured=measured, errors={"failed": AssertionError("why")})
    keep(broken, tmp_path)
    with pytest.raises(NotMeasured, match="pytest tests/lives"):
        read("real", tmp_path)
    keep(Run(str(ClusterKind.REAL), measured=measured), tmp_path)
    assert read("real", tmp_path) == measured
