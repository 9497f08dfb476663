"""One fake GKE for each file, at rest and without faults after each test."""

from collections.abc import Iterator

import pytest

from tests.contract.gke_world import Gke
from tests.contract.stand_ins import ask, stand_in


@pytest.fixture(scope="module")
def gke_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gke]:
    command = ("standins.fakegke", "serve", "--project", "p", "--location", "us-east5", "--cluster", "c")
    with stand_in(tmp_path_factory.mktemp("gke"), *command, "--manual-clock", "--machines-everywhere") as ports:
        yield Gke(ports)


@pytest.fixture
def gke(gke_server: Gke) -> Iterator[Gke]:
    yield gke_server
    ask("DELETE", f"{gke_server.url}/admin/faults")
    gke_server.advance(5000)
