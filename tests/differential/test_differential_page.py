"""The page about the remaining differences is up to date."""

from tests.differential.differential_page import PAGE, render


def test_the_page_shows_the_list() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run: python -m tests.differential.differential_page"
