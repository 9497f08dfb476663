"""What a test expects of a refusal: its reason, by the name that the product raises it by."""

from collections.abc import Callable

import pytest

from shared.model.decisions import Reason
from shared.model.errors import Rejected


def find_reason(refusal: Callable[..., Rejected]) -> Reason:
    """Return the reason of a refusal that has a name."""
    return refusal("words").reason


def refuses(refusal: Callable[..., Rejected], match: str | None = None) -> "pytest.RaisesExc[Rejected]":
    """Return a context that accepts a refusal with this reason only, and with these words."""
    reason = find_reason(refusal)
    return pytest.RaisesExc(Rejected, match=match, check=lambda error: error.reason == reason)
