"""Every file is where a reader looks for it: one name, one module; decisions in the tables only."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEPLOYED_ROOMS = ("shared", "functions", "exporter", "cli", "terminal", "infra/build")
PACKAGES_OF_THEIR_OWN = (
    *sorted(str(path.parent.relative_to(ROOT)) for path in ROOT.glob("standins/*/__init__.py")),
    "demo",
)
TABLES = ROOT / "shared" / "core" / "decide"
NAMED_BY_CONVENTION = {"__init__", "__main__", "main"}
"""``main`` is the entry point of functions and of the exporter."""


def list_modules(*rooms: str) -> list[Path]:
    """The Python files of some rooms, without their tests."""
    found = sorted(path for room in rooms for path in (ROOT / room).rglob("*.py") if "tests" not in path.parts)
    assert found, f"no modules in {rooms}"
    return found


@pytest.mark.parametrize("rooms", [DEPLOYED_ROOMS, *((each,) for each in PACKAGES_OF_THEIR_OWN)], ids="+".join)
def test_no_two_modules_have_one_name(rooms: tuple[str, ...]) -> None:
    by_name = defaultdict(list)
    for path in list_modules(*rooms):
        by_name[path.stem].append(str(path.relative_to(ROOT)))

    assert {
        name: paths for name, paths in by_name.items() if len(paths) > 1 and name not in NAMED_BY_CONVENTION
    } == {}


def find_constructions(path: Path) -> list[int]:
    """The lines on which a file constructs a `Decision`."""
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Decision"]


def test_a_decision_is_constructed_in_the_tables_only() -> None:
    inside = [path for path in list_modules("shared/core/decide") if find_constructions(path)]
    outside = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in list_modules(*DEPLOYED_ROOMS)
        if TABLES not in path.parents
        for line in find_constructions(path)
    ]

    assert len(inside) > 3, "the search finds nothing any more"
    assert outside == []
