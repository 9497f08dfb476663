"""How a deployment is opened, and how each cluster is reached."""

import json
from pathlib import Path

import pytest

from cli.access.connections import open_deployment
from shared.model.errors import Misconfigured
from tests.builders import CLUSTER

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
    with pytest.raises(Misconfigured, match="cannot be used"):
        open_deployment(ENVIRON | {"TPU_PROVISIONER_KUBECONFIG": str(tmp_path / "absent")})


def test_no_command_has_the_means_to_change_a_pool() -> None:
    ports = open_deployment(ENVIRON).ports

    assert (ports.adds, ports.takes) == (None, None)
    assert not hasattr(ports.pools, "create")
    assert not hasattr(ports.pools, "delete")
