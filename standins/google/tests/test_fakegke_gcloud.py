"""The real gcloud against the fake. Tier `tool`: fails, and says how to go on, when gcloud is
absent.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from standins.google.tests.fakegke_worlds import FakeProcess, fake_process

pytestmark = [pytest.mark.tool, pytest.mark.slow]
HERE = ["--cluster", "alpha", "--region", "us-east5"]


class Gcloud:
    """gcloud pointed at a fake, with a configuration of its own and no credentials."""

    def __init__(self, fake: FakeProcess, folder: Path) -> None:
        found = shutil.which("gcloud")
        if found is None:
            pytest.fail(
                "gcloud is not on the PATH: install the Google Cloud CLI or deselect this tier: -m 'not tool'"
            )
        self.fake = fake
        self._program = found
        self._environment = {
            **os.environ,
            "CLOUDSDK_CONFIG": str(folder / "gcloud"),
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER": f"{fake.rest}/",
            "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
            "CLOUDSDK_CORE_PROJECT": "demo",
            "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
            "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
            "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
        }

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [self._program, "container", *arguments]
        return subprocess.run(
            command, env=self._environment, capture_output=True, text=True, timeout=60, check=False
        )

    def json(self, *arguments: str) -> object:
        ended = self.run(*arguments, "--format", "json")
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)


@pytest.fixture
def gcloud(tmp_path: Path) -> Iterator[Gcloud]:
    with fake_process(tmp_path, "--speed", "600") as fake:
        yield Gcloud(fake, tmp_path)


def test_gcloud_creates_lists_describes_and_deletes_a_slice(gcloud: Gcloud) -> None:
    clusters = gcloud.json("clusters", "list")
    assert isinstance(clusters, list)
    assert clusters[0]["name"] == "alpha"
    create = ["node-pools", "create", "pool-1", *HERE, "--node-locations", "us-east5-b", "--num-nodes", "4"]
    machine = ["--machine-type", "ct6e-standard-4t", "--tpu-topology", "4x4", "--spot", "--node-labels", "a=b"]
    created = gcloud.run(*create, *machine)
    assert created.returncode == 0, created.stderr
    described = gcloud.json("node-pools", "describe", "pool-1", *HERE)
    assert isinstance(described, dict)
    assert (described["status"], described["config"]["labels"]) == ("RUNNING", {"a": "b"})
    refused = gcloud.run(*create, *machine)
    assert (refused.returncode, "Already exists" in refused.stderr) == (1, True)
    deleted = gcloud.run("node-pools", "delete", "pool-1", *HERE, "--quiet")
    assert deleted.returncode == 0, deleted.stderr
    assert gcloud.json("node-pools", "list", *HERE) == []
    operations = gcloud.json("operations", "list", "--region", "us-east5")
    assert isinstance(operations, list)
    assert [operation["operationType"] for operation in operations] == ["CREATE_NODE_POOL", "DELETE_NODE_POOL"]


def test_gcloud_reports_why_an_accepted_create_failed(gcloud: Gcloud) -> None:
    httpx.post(f"{gcloud.fake.rest}/admin/faults", json={"switch": "outcome"}).raise_for_status()
    ended = gcloud.run(
        *["node-pools", "create", "pool-1", *HERE, "--node-locations", "us-east5-b", "--num-nodes", "4"],
        *["--machine-type", "ct6e-standard-4t", "--tpu-topology", "4x4"],
    )
    assert ended.returncode == 1
    assert "GCE_STOCKOUT" in ended.stderr
    described = gcloud.json("node-pools", "describe", "pool-1", *HERE)
    assert isinstance(described, dict)
    assert described["status"] == "ERROR"
