"""Fixtures of the exporter's tests: a scripted Kubernetes API, and one behind a certificate."""

from collections.abc import Iterator

import pytest

from tests.exporter.scripted_kubernetes import ScriptedKubernetes
from tests.exporter.tls_server import TlsServer


@pytest.fixture
def kubernetes() -> Iterator[ScriptedKubernetes]:
    with ScriptedKubernetes() as script:
        yield script


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    with TlsServer(tmp_path_factory.mktemp("tls")) as server:
        yield server
