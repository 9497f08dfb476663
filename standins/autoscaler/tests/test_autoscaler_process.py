"""The process: it fills a group of the fake GKE for a pod, and writes Events, over real APIs."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from standins.fakegke.tests.fakegke_processes import fake_process
from standins.processes.child import Command
from standins.processes.kubeconfig import open_client
from standins.processes.stand_ins import PATIENCE_SECONDS, ROOT, running, running_stand_in, wait_until

CLUSTER = "projects/demo/locations/us-east5/clusters/alpha"
SPEED = "120"
POOL = {
    "name": "slice",
    "initialNodeCount": 0,
    "locations": ["us-east5-b"],
    "autoscaling": {"enabled": True, "maxNodeCount": 4},
    "config": {"machineType": "ct6e-standard-4t"},
    "placementPolicy": {"type": "COMPACT", "tpuTopology": "4x4"},
}
POD = {
    "metadata": {"name": "leader"},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "busybox",
                "resources": {"requests": {"google.com/tpu": "4"}, "limits": {"google.com/tpu": "4"}},
            }
        ],
        "nodeSelector": {"cloud.google.com/gke-tpu-topology": "4x4"},
    },
}


class Cloud:
    """An embedded cluster, a fake GKE and the autoscaler, each in a process of its own."""

    def __init__(self, kubernetes: httpx.Client, gke: str) -> None:
        self.kubernetes, self.gke = kubernetes, gke

    def nodes(self) -> list[str]:
        items = self.kubernetes.get("/api/v1/nodes").raise_for_status().json()["items"]
        return [each["metadata"]["name"] for each in items]

    def events(self, reason: str) -> list[dict[str, Any]]:
        items = self.kubernetes.get("/api/v1/namespaces/default/events").raise_for_status().json()["items"]
        return [each for each in items if each["reason"] == reason]

    def create_pool(self) -> None:
        httpx.post(f"{self.gke}/v1/{CLUSTER}/nodePools", json={"nodePool": POOL}).raise_for_status()

    def create_pod(self) -> None:
        self.kubernetes.post("/api/v1/namespaces/default/pods", json=POD).raise_for_status()


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    folders = {name: tmp_path / name for name in ("cluster", "gke")}
    for folder in folders.values():
        folder.mkdir()
    kubeconfig = tmp_path / "kubeconfig"
    options = ("--speed", SPEED, "--kubeconfig-file", str(kubeconfig))
    with (
        running_stand_in(folders["cluster"], "standins.cluster", *options),
        fake_process(folders["gke"], "--speed", SPEED, "--kubernetes", str(kubeconfig)) as gke,
        open_client(kubeconfig) as kubernetes,
    ):
        words = (f"--kubeconfig={kubeconfig}", f"--gke={gke.rest}", f"--cluster={CLUSTER}", f"--speed={SPEED}")
        command = Command(
            name="autoscaler", arguments=(sys.executable, "-m", "standins.autoscaler", *words), folder=ROOT
        )
        with running(command, tmp_path, lambda: "looking" in (tmp_path / "autoscaler.log").read_text()) as child:
            yield Cloud(kubernetes, gke.rest)
            child.end(PATIENCE_SECONDS)
            assert json.loads(child.log.read_text().splitlines()[-1])["message"] == "stopped"


def test_a_pool_is_filled_for_a_pod_that_waits(cloud: Cloud) -> None:
    cloud.create_pool()
    cloud.create_pod()
    wait_until(lambda: len(cloud.nodes()) == 4)
    (event,) = cloud.events("TriggeredScaleUp")
    assert (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == ("Pod", "leader")
    assert (event["source"]["component"], event["type"]) == ("cluster-autoscaler", "Normal")
    assert event["message"].endswith("-grp 0->4 (max: 4)}]")


def test_a_stockout_is_on_the_pod_and_the_group_is_given_up(cloud: Cloud) -> None:
    fault = {"switch": "outcome", "kind": "stockout"}
    httpx.post(f"{cloud.gke}/admin/faults", json=fault).raise_for_status()
    cloud.create_pool()
    cloud.create_pod()
    wait_until(lambda: cloud.events("NotTriggerScaleUp"))
    (event,) = cloud.events("FailedScaleUp")
    assert event["type"] == "Warning"
    assert "zones us-east5-b associated with this pod failed: GCE out of resources." in event["message"]
    groups = f"{cloud.gke}/compute/v1/projects/demo/zones/us-east5-b/instanceGroupManagers"
    (group,) = httpx.get(groups).raise_for_status().json()["items"]
    assert (group["targetSize"], cloud.nodes()) == (0, [])
