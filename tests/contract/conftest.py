"""One fake GKE for each file, at rest and without faults after each test; one embedded cluster."""

from collections.abc import Iterator

import pytest

from standins.google.tests.fakegke_worlds import serving_google
from standins.kit.processes import running_stand_in
from tests.contract.gke_world import Gke, ask
from tests.raw_server import Socket


@pytest.fixture(scope="module")
def gke_server() -> Iterator[Gke]:
    with serving_google(project="p", clusters=["c"], manual_clock=True, machines_everywhere=True) as google:
        yield Gke(google.ports)


@pytest.fixture
def gke(gke_server: Gke) -> Iterator[Gke]:
    yield gke_server
    ask("DELETE", f"{gke_server.url}/admin/faults")
    gke_server.advance(5000)


@pytest.fixture(scope="module")
def cluster_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_stand_in(tmp_path_factory.mktemp("cluster"), "standins.cluster", "--speed=30") as started:
        yield started.addresses["url"]


@pytest.fixture
def server() -> Iterator[Socket]:
    with Socket() as socket:
        yield socket
