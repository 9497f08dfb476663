"""What a test expects of a refusal: its reason and its words."""

import pytest

from shared.model.decisions import Reason
from shared.model.errors import Rejected


def refuses(reason: Reason, match: str | None = None) -> "pytest.RaisesExc[Rejected]":
    """Return a context that accepts a refusal with this reason only, and with these words."""
    return pytest.RaisesExc(Rejected, match=match, check=lambda error: error.reason == reason)
