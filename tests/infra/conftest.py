"""The fixture of the tests of the build's scripts: a pretended cloud."""

from pathlib import Path

import pytest

from tests.infra.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A pretended cloud with nothing in it but the state's bucket."""
    return Bench.make(tmp_path)
