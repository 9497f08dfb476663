"""The document of the kinds says what the table says."""

from infra.build.write_kinds import DOCUMENT, write_table


def test_the_document_of_the_kinds_is_the_table() -> None:
    page = DOCUMENT.read_text()

    assert page == write_table(page), "run: python -m infra.build.write_kinds"
