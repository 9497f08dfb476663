"""What the tests of the build's scripts run on: a pretended cloud, empty or with a deployment."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.infra.bench import PROVISION, PUBLIC, Bench, open_bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A pretended cloud with nothing in it but the state's bucket."""
    with open_bench(tmp_path) as bench:
        yield bench


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A deployment, for all tests of a module that leave it as it is."""
    with open_bench(tmp_path_factory.mktemp("deployed")) as bench:
        bench.build(PROVISION, **PUBLIC)
        yield bench
