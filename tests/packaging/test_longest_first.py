"""The longest files begin first."""

from types import SimpleNamespace

from tests.longest_first import LONGEST, pytest_collection_modifyitems
from tests.run import ROOT


def test_every_file_is_there_once() -> None:
    assert [file for file in LONGEST if not (ROOT / file).is_file()] == []
    assert len(set(LONGEST)) == len(LONGEST)


def test_the_longest_come_first_and_the_others_keep_their_order() -> None:
    names = [
        "a.py::test_b",
        "a.py::test_a",
        f"{LONGEST[1]}::test_d",
        f"{LONGEST[1]}::test_c",
        f"{LONGEST[0]}::test_e",
    ]
    items = [SimpleNamespace(nodeid=name) for name in names]

    pytest_collection_modifyitems(items)  # type: ignore[arg-type]

    assert [item.nodeid for item in items] == [names[4], names[2], names[3], names[0], names[1]]
