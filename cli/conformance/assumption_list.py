"""What the code assumes about Google: the entries of ``assumptions.yaml``.

The code has the comment ``# assumes: NAME`` at each place that relies on an entry.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec
import yaml

PATH = Path(__file__).with_name("assumptions.yaml")


class Assumption(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One fact about Google."""

    name: str
    fact: str
    evidence: Literal["documented", "source", "recorded", "quoted", "nothing"]
    """Google's pages say it; public source of Google or others shows it; recorded traffic shows
    it; somebody quotes it in an issue, a log or a runbook; or it is a guess."""
    link: str = ""
    breaks: str
    """What happens if the fact is false."""
    question: str = ""
    """The question of ``conformance`` that settles it."""
    unasked: str = ""
    """Why no question settles it."""
    switch: str = ""
    """The fault switch of the fake GKE that plays the other answer."""
    calls: list[str] = []
    """The calls of Google APIs whose form the entry is about."""


def read_assumptions() -> list[Assumption]:
    """Return all entries."""
    return msgspec.convert(yaml.safe_load(PATH.read_text(encoding="utf-8")), list[Assumption])
