"""How a deployment is opened, and how each cluster is reached."""

import json
from pathlib import Path

import pytest

from cli.access.operator_access import open_deployment
from cli.rehearsal import rehearse
from shared.model.errors import AlreadyExists, Misconfigured
from tests.builders import CLUSTER, a_pool
from tests.component.world import World
from tests.log_records import Records

ENVIRON = {
    "TPU_PROVISIONER_CLUSTERS": json.dumps({CLUSTER: {"endpoint": "https://a.gke.goog"}}),
    "TPU_PROVISIONER_CREDENTIALS": "anonymous",
}


def test_opening_a_deployment_asks_nobody() -> None:
    found = open_deployment(ENVIRON)

    assert list(found.apis) == [CLUSTER]
    assert found.open_logs is not None
    assert open_deployment(ENVIRON | {"TPU_PROVISIONER_LOGGING_ENDPOINT": ""}).open_logs is None


def test_a_kubeconfig_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="cannot be read"):
        open_deployment(ENVIRON | {"TPU_PROVISIONER_KUBECONFIG": str(tmp_path / "absent")})


def test_a_rehearsal_conflicts_as_gke_would_and_changes_nothing() -> None:
    world = World(Records())
    world.pools.add(CLUSTER, a_pool())
    ports = rehearse(world.ports)

    with pytest.raises(AlreadyExists):
        ports.pools.create(CLUSTER, {"name": a_pool().name})
    ports.pools.create(CLUSTER, {"name": "another"})
    ports.pools.delete(CLUSTER, a_pool().name)

    assert world.pools.names(CLUSTER) == [a_pool().name]
