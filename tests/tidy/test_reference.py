"""The generated pages of the reference are what the code says."""

import pytest

from infra.build.write_reference import FOLDER, write_pages


@pytest.mark.parametrize("name", sorted(write_pages()))
def test_a_page_of_the_reference_is_what_the_code_says(name: str) -> None:
    assert (FOLDER / name).read_text() == write_pages()[name], "run: python -m infra.build.write_reference"


def test_the_reference_has_no_page_that_nothing_writes() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(write_pages())
