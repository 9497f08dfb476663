"""What runs on the embedded cluster only is what the list says, no more and no less."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from embedded_only import EMBEDDED_ONLY, EMBEDDED_ONLY_FILES

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]


def collected(marks: str) -> set[tuple[str, str]]:
    """File and function of every test that pytest would run under these marks."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", marks, str(FOLDER)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    tests = [line.split("::") for line in done.stdout.splitlines() if "::" in line]
    return {(Path(file).name, name.partition("[")[0]) for file, *_, name in tests}


@pytest.fixture(scope="module")
def on_one_cluster_only() -> set[tuple[str, str]]:
    return collected("not cluster") - collected("cluster")


def test_every_test_that_skips_the_real_cluster_says_why(on_one_cluster_only: set[tuple[str, str]]):
    unexplained = {
        name for file, name in on_one_cluster_only if file not in EMBEDDED_ONLY_FILES and name not in EMBEDDED_ONLY
    }

    assert unexplained == set()


def test_the_list_has_no_stale_entries(on_one_cluster_only: set[tuple[str, str]]):
    assert set(EMBEDDED_ONLY) == {name for file, name in on_one_cluster_only if file not in EMBEDDED_ONLY_FILES}
    assert set(EMBEDDED_ONLY_FILES) == {file for file, _ in on_one_cluster_only} & set(EMBEDDED_ONLY_FILES)


def test_every_reason_is_given_in_words():
    assert all(len(reason.split()) > 3 for reason in (EMBEDDED_ONLY | EMBEDDED_ONLY_FILES).values())
