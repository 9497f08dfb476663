"""One fake GKE for each file, at rest and without faults after each test; one embedded cluster."""

from collections.abc import Iterator

import pytest

from tests.contract.counting_socket import Socket
from tests.contract.gke_world import Gke
from tests.contract.stand_ins import ask, stand_in


@pytest.fixture(scope="module")
def gke_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gke]:
    command = ("standins.google", "serve", "--project", "p", "--location", "us-east5", "--cluster", "c")
    with stand_in(tmp_path_factory.mktemp("gke"), *command, "--manual-clock", "--machines-everywhere") as ports:
        yield Gke(ports)


@pytest.fixture
def gke(gke_server: Gke) -> Iterator[Gke]:
    yield gke_server
    ask("DELETE", f"{gke_server.url}/admin/faults")
    gke_server.advance(5000)


@pytest.fixture(scope="module")
def cluster_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with stand_in(tmp_path_factory.mktemp("cluster"), "standins.cluster", "serve", "--speed", "30") as ports:
        yield ports["url"]


@pytest.fixture
def server() -> Iterator[Socket]:
    found = Socket()
    yield found
    found.close()
