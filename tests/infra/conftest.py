"""The fixture of the tests of the build's scripts: a pretended cloud."""

from pathlib import Path

import pytest

from tests.infra.build_scripts import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A pretended cloud with nothing in it."""
    return Bench.make(tmp_path)
