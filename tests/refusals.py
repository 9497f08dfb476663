"""What a test expects of a refusal: its reason and its words."""

import pytest

from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import Rejected


def refuses(reason: Reason, match: str | None = None) -> "pytest.RaisesExc[Rejected]":
    """Return a context that accepts a refusal with this reason only, and with these words."""
    return pytest.RaisesExc(Rejected, match=match, check=lambda error: error.reason == reason)


def expect_words(found: object, reason: Reason, *words: str, verdict: Verdict = Verdict.REFUSE) -> str:
    """Return the message of a decision, which has a reason and these words."""
    assert isinstance(found, Decision), found
    assert (found.verdict, found.reason) == (verdict, reason), found.message
    assert [word for word in words if word not in found.message] == [], found.message
    return found.message
