"""A scripted Kubernetes API for each test that asks for one."""

from collections.abc import Iterator

import pytest

from tests.exporter.scripted_kubernetes import ScriptedKubernetes


@pytest.fixture
def kubernetes() -> Iterator[ScriptedKubernetes]:
    with ScriptedKubernetes() as script:
        yield script
