"""The document of the kinds says what the table says."""

from __future__ import annotations

from infra.build.write_kinds import DOCUMENT, render


def test_the_document_of_the_kinds_is_the_table():
    assert DOCUMENT.read_text() == render(), "run: python -m infra.build.write_kinds"
