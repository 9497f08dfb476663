"""Each fact about Google that the code relies on is in one list, with place and question.

The code has the comment ``# assumes: NAME`` on each line that relies on an entry of
``tests/real/assumptions.yaml``.
"""

import re
from typing import Annotated

import msgspec
from msgspec import Meta

from tests.google_calls import ROOT, list_calls

ROOMS = ("shared", "exporter", "functions", "cli")
PLACES = (*(f"{room}/**/*.py" for room in ROOMS), "infra/terraform/**/*.tf", "infra/*.sh", "infra/build/*.sh")
MARKER = re.compile(r"# assumes: ([a-z0-9-]+(?:, [a-z0-9-]+)*)$", re.MULTILINE)


class Assumption(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One fact about Google."""

    name: str
    fact: str
    evidence: Annotated[str, Meta(pattern=r"^(documented|source|recorded|quoted), https://\S+$")]
    """Google's pages say it; public source of Google or others shows it; recorded traffic shows
    it; or somebody quotes it in an issue, a log or a runbook. The link shows where."""
    breaks: str  # what happens if the fact is false
    question: str = ""  # the test of ``tests/real`` that settles it, if a project can answer it
    calls: list[str] = []  # the calls of Google APIs whose form the entry is about


ENTRIES = msgspec.yaml.decode((ROOT / "tests/real/assumptions.yaml").read_bytes(), type=list[Assumption])
QUESTIONS = set(re.findall(r"^def (test_\w+)", (ROOT / "tests/real/test_google.py").read_text(), re.MULTILINE))


def test_each_call_of_google_has_an_entry_and_each_entry_a_call_that_exists() -> None:
    calls = {name if verb == "a client" else f"{verb} {name}" for verb, name in list_calls(*ROOMS)}

    assert len(calls) > 15
    assert {call for each in ENTRIES for call in each.calls} == calls


def test_each_entry_has_a_place_and_each_place_one_entry() -> None:
    texts = (path.read_text(encoding="utf-8") for pattern in PLACES for path in ROOT.glob(pattern))
    places = {name for text in texts for marker in MARKER.findall(text) for name in marker.split(", ")}

    assert len(places) > 50
    assert sorted(each.name for each in ENTRIES) == sorted(places)


def test_each_question_is_about_an_entry_and_exists() -> None:
    assert {each.question for each in ENTRIES if each.question} == QUESTIONS


def test_each_question_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`(test_[a-z_]+)`", (ROOT / "docs/tested.md").read_text()))

    assert len(named) > 5
    assert named <= QUESTIONS
