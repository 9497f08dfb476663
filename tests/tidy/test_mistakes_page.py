"""The page of mistakes is what the tests say, and no row ends with a build that fails for ever."""

from tests.mistakes import COLUMNS, PAGE, list_rows, render_page


def test_the_page_is_what_the_tests_say() -> None:
    assert PAGE.read_text() == render_page(), "run python -m tests.mistakes"


def test_every_row_is_whole_and_no_mistake_comes_twice() -> None:
    rows = [row for rows in list_rows().values() for row in rows]

    assert len(rows) >= 30
    assert all(len(row) == len(COLUMNS) and all(row) for row in rows)
    assert len({row[0] for row in rows}) == len(rows)
    assert [row[0] for row in rows if "for ever" in row[3]] == []
