"""The source of the first release, as git has it: what users of 0.1.0 upgrade from."""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.infra.build_scripts import ROOT

COMMIT = "79b806cdc91d0e769f7e7c6c7c22faa5834eee34"
"""The last commit whose changes the changelog lists under 0.1.0."""


def extract_first_release(folder: Path) -> Path:
    """Write the source of 0.1.0 into a folder and return it, or fail the test with what to do."""
    command = ["git", "-C", str(ROOT), "archive", "--format=tar", COMMIT]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    if done.returncode:
        pytest.fail(
            f"this test needs the commit {COMMIT[:7]} of 0.1.0: a clone with its history (git fetch --unshallow)"
        )
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder
