"""A sentence of a page has at most 25 words."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
WORDS_MAX = 25
NO_PROSE = re.compile(r"```.*?```|^[|#].*?$", re.DOTALL | re.MULTILINE)
"""Code, tables and headings."""


def list_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a page, with each link by its words and each code as one word."""
    text = re.sub(r"`[^`]*`", "x", re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", NO_PROSE.sub("", text)))
    for paragraph in re.split(r"\n\s*\n|\n\s*(?:- |\d+\. )", text):
        yield from re.split(r"(?<=[.:;!?])\s+", " ".join(paragraph.split()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_sentence_is_short(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    words = {each: sum(bool(re.search(r"\w", word)) for word in each.split()) for each in list_sentences(text)}

    long = [f"{number} words: {each}" for each, number in words.items() if number > WORDS_MAX]
    assert long == [] or page.name == "labels.md"  # its lists of labels are code


def test_a_long_sentence_is_noticed() -> None:
    assert len(next(list_sentences("word " * 26)).split()) > WORDS_MAX
