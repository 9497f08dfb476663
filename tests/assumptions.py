"""What the code assumes about Google: the entries of ``tests/real/assumptions.yaml``.

The code has the comment ``# assumes: NAME`` on each line that relies on an entry.
"""

import re
from pathlib import Path
from typing import Annotated

import msgspec
import yaml
from msgspec import Meta

ROOT = Path(__file__).resolve().parents[1]
PLACES = (
    "shared/**/*.py",
    "functions/*.py",
    "exporter/*.py",
    "cli/**/*.py",
    "infra/terraform/**/*.tf",
    "infra/*.sh",
    "infra/build/*.sh",
)
_MARKER = re.compile(r"# assumes: ([a-z0-9-]+(?:, [a-z0-9-]+)*)$", re.MULTILINE)


class Assumption(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One fact about Google."""

    name: str
    fact: str
    evidence: Annotated[str, Meta(pattern=r"^(documented|source|recorded|quoted), https://\S+$")]
    """Google's pages say it; public source of Google or others shows it; recorded traffic shows
    it; or somebody quotes it in an issue, a log or a runbook. The link shows where."""
    breaks: str  # what happens if the fact is false
    question: str = ""  # the test of ``tests/real`` that settles it
    unasked: str = ""  # why no test settles it
    switch: str = ""  # the fault switch of the fake GKE that plays the other answer
    calls: list[str] = []  # the calls of Google APIs whose form the entry is about


def read_assumptions() -> list[Assumption]:
    """Return all entries."""
    text = (ROOT / "tests/real/assumptions.yaml").read_text(encoding="utf-8")
    return msgspec.convert(yaml.safe_load(text), list[Assumption])


def list_questions() -> set[str]:
    """Return the names of the tests that ask a real project."""
    return set(re.findall(r"^def (test_\w+)", (ROOT / "tests/real/test_google.py").read_text(), re.MULTILINE))


def list_places() -> set[str]:
    """Return the entries on which the code relies somewhere."""
    texts = (path.read_text(encoding="utf-8") for pattern in PLACES for path in ROOT.glob(pattern))
    return {name for text in texts for marker in _MARKER.findall(text) for name in marker.split(", ")}
