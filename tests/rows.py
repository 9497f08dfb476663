"""Tables of cases: the name of a row says what it is about, in the report of a failure too."""

from collections.abc import Mapping
from typing import Any

import pytest


def rows(names: str, table: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Run a test once for each row; of several names, separated by spaces, a row is a tuple."""
    arguments = names.split()
    values = {name: (row,) if len(arguments) == 1 else row for name, row in table.items()}
    return pytest.mark.parametrize(arguments, [pytest.param(*row, id=name) for name, row in values.items()])
