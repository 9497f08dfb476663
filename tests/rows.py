"""Tables of cases: the name of a row says what it is about, in the report of a failure too."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml


def rows(names: str, table: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Run a test once for each row; of several names, separated by spaces, a row is a tuple."""
    arguments = names.split()
    values = {name: (row,) if len(arguments) == 1 else row for name, row in table.items()}
    return pytest.mark.parametrize(arguments, [pytest.param(*row, id=name) for name, row in values.items()])


def read_table(file: str, names: str, section: str) -> dict[str, dict[str, Any]]:
    """Return the rows of a file of `golden` by their names. They have these columns only.

    The column `section` has the heading that a row is below.
    """
    text = (Path(__file__).parent / "rules/golden" / file).read_text(encoding="utf-8")
    parts = ((title, name, row) for title, part in yaml.safe_load(text).items() for name, row in part.items())
    table = {f"{title}: {name}": row | {section: title} for title, name, row in parts}
    lines = re.findall(r"^  [^ #]", text, flags=re.MULTILINE)
    assert len(lines) == len(table), f"{file}: two rows have one name"
    for name, row in table.items():
        assert row.keys() <= set(names.split()), f"{file}: {name}: valid: {names}"
    return table
