"""Each refusal answers the question "what do I change?": with what is valid, or what to do."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

from shared.model import labels
from shared.model.errors import refuse

ROOT = Path(__file__).parents[2]
ROWS: dict[str, dict[str, str]] = json.loads((ROOT / "shared/model/refusals.json").read_text())
READ_ELSEWHERE = {"list_unreadable", "candidate_unfit"}
"""Their text has been written with what is valid, where the field was read."""


CHOSEN = {
    "name or ''": ("gpu_type_unknown", "tpu_type_unknown"),
    "str(chips or '')": ("no_such_chip_count", "chips_missing"),
}
"""Rows of the calls that choose one before, by the value that they refuse."""


def list_facts(text: str) -> set[str]:
    """Return the facts that a text needs, without what each text has."""
    names = {(name or "").partition(".")[0] for _, name, _, _ in Formatter().parse(text) if name is not None}
    return names - {"labels", "value"}


def list_calls() -> Iterator[tuple[str, set[str]]]:
    """Yield the rows that each call may take, with the facts that it gives."""
    for path in (ROOT / "shared").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("refuse", "_leave"):
                if isinstance(node.args[0], ast.Name) and node.keywords[0].arg is None:
                    continue  # in `_leave`, which passes on what it gets
                texts = [each.value for each in ast.walk(node.args[0]) if isinstance(each, ast.Constant)]
                for name in texts or CHOSEN[ast.unparse(node.args[1])]:
                    yield str(name), {each.arg for each in node.keywords if each.arg}


@pytest.mark.parametrize("name", ROWS)
def test_each_refusal_says_where_and_what_is_valid(name: str) -> None:
    row = ROWS[name]

    left_to_others = row["reason"].startswith("demand_")
    assert row.get("field") or left_to_others or name == "spot_not_tolerated"
    assert row.get("valid") or left_to_others or name in READ_ELSEWHERE


def test_each_refusal_is_given_somewhere_with_the_facts_that_its_words_need() -> None:
    calls = list(list_calls())
    needed = {
        name: set().union(*map(list_facts, (row.get(part, "") for part in ("field", "text", "valid"))))
        for name, row in ROWS.items()
    }

    assert {name for name, _ in calls} == ROWS.keys()
    assert [(name, facts) for name, facts in calls if facts != needed[name]] == []


def test_facts_fill_the_words_and_several_have_commas_between_them() -> None:
    error = refuse("not_listed", "a", field="f", setting="s", listed=("b", "c"))

    assert (
        str(error)
        == "f: the setting s does not list this value (got 'a'); valid: b, c; an operator can add to the list"
    )
    assert refuse("no_flex_start", "x").field == labels.FLEX_START
