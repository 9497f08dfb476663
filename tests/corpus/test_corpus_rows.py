"""The rows of the corpus are well formed, and are read as they are meant.

None of the files is needed here.
"""

from __future__ import annotations

import re
from collections import Counter

import pytest

from shared.core.decisions import Reason
from tests.corpus.corpus_rows import KINDS, NOT_PLANNED, ROWS, Row, read_rows, write_outcomes

ROWS_MIN = 60
A_ROW = """
repositories: {a/b: 0}
rows:
- repository: a/b
  path: x.yaml
"""


@pytest.fixture(scope="module")
def rows() -> tuple[Row, ...]:
    return read_rows()


def test_there_are_enough_rows_of_every_kind(rows: tuple[Row, ...]) -> None:
    planned = Counter(
        key.partition("/")[0] for row in rows for key, what in row.gets.items() if what != NOT_PLANNED
    )

    assert len(rows) >= ROWS_MIN
    assert set(planned) == set(KINDS)


def test_every_outcome_is_expected_somewhere(rows: tuple[Row, ...]) -> None:
    outcomes = [outcome for row in rows for outcome in row.gets.values()]

    assert NOT_PLANNED in outcomes
    for start in ("refused: ", "left: ", "1 x ct5lp", "1 x ct6e", "1 x tpu7x", "2 x ct4p", "1 x g2-"):
        assert any(each.startswith(start) for each in outcomes), start
    assert any(row.unreadable for row in rows)


def test_files_are_named_once_at_a_full_commit(rows: tuple[Row, ...]) -> None:
    assert [name for name, times in Counter(row.name for row in rows).items() if times > 1] == []
    for row in rows:
        assert re.fullmatch(r"[0-9a-f]{40}", row.commit), row.name
        assert re.fullmatch(r"[\w.-]+/[\w.-]+", row.repository), row.name
        assert re.fullmatch(r"[\w.-]+(/[\w.-]+)*\.ya?ml", row.path), row.name


def test_reasons_exist(rows: tuple[Row, ...]) -> None:
    named = {match[1] for row in rows for each in row.gets.values() if (match := re.search(r": (\w+)$", each))}

    assert named
    assert named <= {str(each) for each in Reason}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "a/b/x.yaml: gets: is missing"),
        ("  got: {}", "['got']: is not known; valid: gets, "),
        ("  gets: {DaemonSet/x: not planned}", "gets: is not valid (got 'DaemonSet/x')"),
        ("  gets: {Job/: not planned}", "gets: is not valid (got 'Job/')"),
        ("  gets: {Job/x: planned}", "gets.Job/x: is not valid (got 'planned')"),
        ("  gets: {Job/x: '0 x ct5p-hightpu-4t 2x2x1, 1 host, 4 chips'}", "is not valid (got '0 x ct5p"),
        ("- {repository: c/d, path: y}", "is missing"),
    ],
)
def test_a_row_that_cannot_be_read_is_named(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        read_rows(f"{A_ROW}{line}\n")


def test_an_unknown_repository_is_named() -> None:
    with pytest.raises(ValueError, match=re.escape("c/d/x.yaml: repository: has no commit; valid: one of a/b")):
        read_rows(A_ROW.replace("repository: a/b", "repository: c/d"))


def test_pools_are_wanted_for_what_controllers_make_of_an_object() -> None:
    kinds = {"RayService/a": "left: x", "PathwaysJob/b": "left: y", "Job/c-": "left: z", "Pod/d": NOT_PLANNED}
    row = Row(repository="a/b", commit="0", path="x.yaml", gets=kinds)

    assert row.wants == {"RayCluster/a-xxxxx": "left: x", "JobSet/b": "left: y", "Job/c-xxxxx": "left: z"}


def test_what_plan_says_is_written_in_the_words_of_the_rows() -> None:
    pool = {"kind": "Job", "workload": "x", "decision": "create", "node_count": 1, "chips": 8}
    pool |= {"machine_type": "ct6e-standard-8t", "topology": "2x4", "reason": "pool_absent"}
    gpus = pool | {"workload": "y", "machine_type": "g2-standard-24", "topology": "", "node_count": 2, "chips": 4}
    refused = pool | {"workload": "z", "decision": "refuse", "reason": "gpu_unknown"}
    left = refused | {"workload": "w", "decision": "nothing", "reason": "demand_left_to_gke"}

    assert write_outcomes([pool, pool, gpus, refused, left]) == {
        "Job/x": "2 x ct6e-standard-8t 2x4, 1 host, 8 chips",
        "Job/y": "1 x g2-standard-24, 2 hosts, 4 chips",
        "Job/z": "refused: gpu_unknown",
        "Job/w": "left: demand_left_to_gke",
    }
    mixed = write_outcomes([pool, refused | {"workload": "x"}])
    assert mixed == {"Job/x": "1 x ct6e-standard-8t 2x4, 1 host, 8 chips; refused: gpu_unknown"}


def test_nothing_of_the_files_is_in_the_rows() -> None:
    text = ROWS.read_text(encoding="utf-8")

    assert not re.search(r"apiVersion|containers:|nodeSelector", text)
    assert max(map(len, text.splitlines())) <= 200
