"""Each fact about Google that the code relies on is in one list, with place and question."""

import re

from standins.google.gke.faults import SWITCHES
from tests.assumptions import ROOT, list_places, list_questions, read_assumptions
from tests.google_calls import google_calls

ROOMS = ("shared", "exporter", "functions", "cli")


def list_calls() -> set[str]:
    """The calls of Google APIs: a method of a client, or verb and path."""
    return {
        name if verb == "a client" else f"{verb} {name}"
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        for verb, name in google_calls(path.read_text())
    }


def test_each_call_of_google_has_an_entry_and_each_entry_a_call_that_exists() -> None:
    calls = list_calls()

    assert len(calls) > 15
    assert {call for each in read_assumptions() for call in each.calls} == calls


def test_a_new_call_is_seen() -> None:
    source = 'self._call("roll_back", request, path)\nsession.call("PUT", f"v1/{x}")\nlogs.list_entries()'

    assert list(google_calls(source)) == [
        ("a client", "roll_back"),
        ("PUT", "v1/{}"),
        ("a client", "list_entries"),
    ]


def test_each_entry_has_a_place_and_each_place_an_entry() -> None:
    assert list_places() == {each.name for each in read_assumptions()}


def test_each_question_and_switch_exists_and_each_question_is_about_an_entry() -> None:
    entries, questions = read_assumptions(), list_questions()

    assert {each.question for each in entries if each.question} == questions
    assert {each.switch for each in entries if each.switch} <= set(SWITCHES)


def test_each_piece_names_what_google_itself_says_about_it_or_none() -> None:
    table = (ROOT / "docs/tested.md").read_text().partition("## The pieces\n")[2].partition("\n\n## ")[0]
    answer = [line.rstrip(" |").rpartition(" | ")[2] for line in table.splitlines() if line.startswith("| ")][2:]
    questions = list_questions()
    whole = re.compile(r"none|(?:\[recorded\]|its source|each question|`).*")

    assert len(answer) > 25
    assert [each for each in answer if not whole.fullmatch(each)] == []
    assert {name for each in answer for name in re.findall(r"`(test_[a-z_]+)`", each)} <= questions


def test_each_entry_is_whole() -> None:
    entries = read_assumptions()

    assert len({each.name for each in entries}) == len(entries) > 50
    assert [each.name for each in entries if bool(each.question) == bool(each.unasked)] == []
