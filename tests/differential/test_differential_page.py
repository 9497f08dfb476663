"""The list of differences is complete in its words, and the page about it is up to date."""

from __future__ import annotations

from differential_known import KNOWN
from differential_page import PAGE, render


def test_the_page_shows_the_list():
    assert PAGE.read_text(encoding="utf-8") == render(), "run: python tests/differential/differential_page.py"


def test_every_difference_has_its_reason_and_what_it_hides():
    for known in KNOWN:
        for text in (known.what, known.embedded, known.real, known.reason, known.hides):
            assert text[0].isupper() or text[0].isdigit(), text
            assert text.endswith((".", "`")) == (text in (known.reason, known.hides)), text


def test_no_difference_is_listed_twice():
    assert len({known.what for known in KNOWN}) == len(KNOWN)
