"""A pytest plugin that lets the files which take longest begin first, so that no process waits."""

import pytest

LONGEST = (
    "tests/loop/test_lives.py",
    "demo/tests/test_demo_scarce.py",
    "demo/tests/test_demo.py",
    "demo/tests/test_stack_commands.py",
    "tests/loop/test_chaos.py",
    "tests/simulation/test_simulation.py",
)
"""Those of the first tier, the longest first, as `slowest_files.py` prints them. A file with one
test gets a second file at once, so the last one here is short. A file that is missing here costs
time and nothing else."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of these files first; all others keep their order."""
    places = {file: place for place, file in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(LONGEST)))
