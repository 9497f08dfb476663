"""`plan` says of real manifests what was derived by hand from the facts (tier `corpus`)."""

from __future__ import annotations

import json
import os
from pathlib import Path, PurePosixPath

import pytest

from tests.cli.cli_world import run
from tests.corpus.corpus_files import ROWS, VARIABLE, read_file
from tests.corpus.corpus_rows import Row, write_outcomes

pytestmark = pytest.mark.corpus
ZONE = "us-central1-a"  # for files that select none; no outcome depends on it


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.repository}/{row.path}")
def test_plan_says_what_the_facts_say(row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / PurePosixPath(row.path).name
    path.write_bytes(read_file(row, os.environ.get(VARIABLE, "")))
    monkeypatch.delenv(VARIABLE, raising=False)  # it is no setting of the command

    result = run("plan", str(path), "--zone", ZONE, "-o", "json")

    if row.unreadable:
        assert result.exit_code == 2
        assert [words for words in row.unreadable if words not in result.stderr] == []
    else:
        assert result.stderr == ""
    if row.gets:
        output = json.loads(result.stdout)
        assert write_outcomes(output["needs"]) == row.wants
