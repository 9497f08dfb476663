"""The table of failures, held to messages of Google that are quoted in public."""

from pathlib import Path

import pytest
import yaml

from shared.model import failures
from shared.model.decisions import Reason
from shared.model.failures import classify_failure


def read_quoted() -> list[tuple[str, str, str]]:
    """Message, class and source of each message that the file quotes."""
    by_class = yaml.safe_load((Path(__file__).parent / "golden/failures.yaml").read_text())
    return [
        (words, kind, source)
        for kind, by_source in by_class.items()
        for source, messages in by_source.items()
        for words in messages
    ]


QUOTED = read_quoted()
WORDS = {Reason(kind): words for words, kind, _ in QUOTED}
FRAGMENTS = [fragment for _, fragments in failures._TABLE for fragment in fragments]


@pytest.mark.parametrize(("words", "kind", "source"), QUOTED)
def test_a_message_of_google_has_its_class(words: str, kind: str, source: str) -> None:
    assert classify_failure(words) == kind
    assert source.startswith("https://") or source.count(" ") == 1, "an address, or REPOSITORY FILE"


def test_at_least_eighty_messages_are_quoted_each_once_and_for_every_class() -> None:
    assert len({words for words, *_ in QUOTED}) == len(QUOTED) >= 80
    assert {kind for _, kind, _ in QUOTED} == {Reason.POOL_FAILED, *(reason for reason, _ in failures._PATTERNS)}


@pytest.mark.parametrize("at", range(len(FRAGMENTS)), ids=FRAGMENTS)
def test_a_message_needs_each_fragment(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the fragment at least one message has another class."""
    rest = [*failures._PATTERNS[:at], *failures._PATTERNS[at + 1 :]]
    monkeypatch.setattr(failures, "_PATTERNS", rest)

    assert any(classify_failure(words) != kind for words, kind, _ in QUOTED)


@pytest.mark.parametrize(("failure", "words"), WORDS.items())
def test_the_case_of_words_does_not_matter(failure: Reason, words: str) -> None:
    assert classify_failure(words) == classify_failure(words.upper()) == failure


def test_what_a_later_try_may_mend_comes_first() -> None:
    assert classify_failure("Current errors: [GCE_STOCKOUT, PERMISSIONS_ERROR]") == Reason.STOCKOUT


@pytest.mark.parametrize("word", ["quota", "stockout", "reservation", "permission", "constraint", "ip-space"])
@pytest.mark.parametrize(
    "words",
    [
        "Instance 'gke-c-{0}-sweep-0' creation failed: [PERMISSIONS_ERROR]",
        "Instance 'gke-c-{0}' of project {0}-lab in 'my-{0}' failed: [PERMISSIONS_ERROR]",
        "projects/{0}/zones/z/reservations/{0} of {0}@{0}-lab.iam.gserviceaccount.com: [PERMISSIONS_ERROR]",
    ],
)
def test_a_name_that_a_user_chose_is_no_cause(word: str, words: str) -> None:
    assert classify_failure(words.format(word)) == Reason.PERMISSION_DENIED


def test_no_name_can_have_a_fragment_of_the_table() -> None:
    assert [fragment for fragment in FRAGMENTS if " " not in fragment or "_" in fragment] == []
