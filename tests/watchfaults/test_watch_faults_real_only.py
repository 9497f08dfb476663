"""The list of what only the real cluster plays has no entry that is not a scenario."""

from __future__ import annotations

import ast
from pathlib import Path

from watchfaults_real_only import REAL_ONLY


def test_every_scenario_on_the_list_exists():
    names = {
        node.name
        for path in Path(__file__).parent.glob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    }

    assert set(REAL_ONLY) <= names
