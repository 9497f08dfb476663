"""The navigation of the documentation's site, and its generated pages, without building it."""

import re
from pathlib import Path

import pytest

from infra.build.write_reference import FOLDER, write_pages

ROOT = Path(__file__).resolve().parents[2]
NAVIGATION = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]


def test_each_page_is_in_the_navigation_and_each_entry_is_a_page() -> None:
    listed = re.findall(r"- (\S+\.md|decisions/\*)$", NAVIGATION, re.MULTILINE)
    own = {page for page in listed if not page.startswith("repository/")} - {"decisions/*"}
    outside = {page.removeprefix("repository/") for page in set(listed) - own - {"decisions/*"}}
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}

    assert len(listed) == len(set(listed))
    assert "decisions/*" in listed
    assert {page for page in pages if not page.startswith("decisions/")} == own, "list the page in mkdocs.yml"
    assert sorted(path for path in outside if not (ROOT / path).is_file()) == []


@pytest.mark.parametrize("name", sorted(write_pages()))
def test_a_page_of_the_reference_is_what_the_code_says(name: str) -> None:
    assert (FOLDER / name).read_text() == write_pages()[name], "run: python -m infra.build.write_reference"


def test_the_reference_has_no_page_that_nothing_writes() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(write_pages())
