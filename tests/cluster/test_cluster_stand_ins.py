"""Fake GKE, simulated kubelet and exporter work on the real control plane by https and token."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from standins.controlplane.chart import read_local_chart
from standins.controlplane.plane import ControlPlane
from standins.controlplane.tests.controlplane_worlds import POOL, World, jobset, wait_for
from standins.kit.processes import Command, running, running_stand_in
from tests.log_records import read_records

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "infra/helm"
PARENT = "projects/demo/locations/us-east5/clusters/alpha"
SPEED = "300"


def complaints(log: Path) -> list[dict[str, Any]]:
    records = read_records(log)
    return [record for record in records if record["severity"] not in ("DEBUG", "INFO")]


@contextmanager
def pools(plane: ControlPlane, folder: Path, *, run_seconds: int) -> Iterator[httpx.Client]:
    """Run fake GKE and simulated kubelet on a control plane; yield its node pool API."""
    place = ("--project=demo", "--location=us-east5", "--cluster=alpha", "--zone=us-east5-b")
    gke = (*place, f"--speed={SPEED}", f"--kubernetes={plane.kubeconfig}")
    kubelet = (f"--kubeconfig={plane.kubeconfig}", f"--speed={SPEED}", f"--run-seconds={run_seconds}")
    with (
        running_stand_in(folder, "standins.google", *gke) as fake,
        running(module("standins.kubelet", *kubelet), folder, lambda: True) as pods,
        httpx.Client(base_url=f"{fake.addresses['rest']}/v1/{PARENT}", trust_env=False) as client,
    ):
        yield client
    assert complaints(fake.log) == []
    assert complaints(pods.log) == []


def module(name: str, *arguments: str, environment: dict[str, str] | None = None) -> Command:
    command = (sys.executable, "-m", name, *arguments)
    return Command(name=name, arguments=command, folder=ROOT, environment=environment or {})


def test_pools_of_the_fake_gke_and_the_simulated_kubelet_carry_a_jobset_to_its_end(
    plane: ControlPlane, world: World, tmp_path: Path
) -> None:
    with pools(plane, tmp_path, run_seconds=60) as gke:
        world.submit(jobset("train", slices=1))
        wait_for("the leader", world.unschedulable)
        gke.post("/nodePools", json={"nodePool": pool_of_four("slice-a")}).raise_for_status()

        wait_for("completion", lambda: world.stored("train").get("status", {}).get("terminalState") == "Completed")
        assert world.phases() == ["Succeeded"] * 4
        gke.delete("/nodePools/slice-a").raise_for_status()
        wait_for("no nodes", lambda: nodes(plane, "slice-a") == [])


def test_a_deleted_pool_takes_its_running_pods_with_it(plane: ControlPlane, world: World, tmp_path: Path) -> None:
    with pools(plane, tmp_path, run_seconds=100_000) as gke:
        world.submit(jobset("train", slices=1, failurePolicy={"maxRestarts": 3}))
        gke.post("/nodePools", json={"nodePool": pool_of_four("slice-b")}).raise_for_status()
        wait_for("running pods", lambda: world.phases() == ["Running"] * 4)
        gke.delete("/nodePools/slice-b").raise_for_status()

        wait_for("no nodes", lambda: nodes(plane, "slice-b") == [])
        wait_for("a new leader", lambda: len(world.unschedulable()) == 1 and len(world.pods()) == 1)


def test_the_exporter_reports_demand_with_no_more_than_its_own_account(
    plane: ControlPlane, world: World, tmp_path: Path
) -> None:
    plane.apply(read_local_chart(CHART))
    account = "tpu-provisioner-exporter"
    plane.write_account_token(tmp_path / "token", "tpu-provisioner", account)
    topic = "projects/demo/topics/workload-events"
    environment = {
        "TPU_PROVISIONER_CLUSTER": PARENT,
        "TPU_PROVISIONER_TOPIC": topic,
        "TPU_PROVISIONER_ENDPOINT": plane.url,
        "TPU_PROVISIONER_CA_FILE": str(plane.layout.authority),
        "TPU_PROVISIONER_TOKEN_FILE": str(tmp_path / "token"),
        "TPU_PROVISIONER_HTTP_PORT": "0",
    }
    with running_stand_in(tmp_path, "standins.google", "--pubsub") as stand_in:
        broker = stand_in.addresses
        httpx.put(f"{broker['rest']}/v1/{topic}", trust_env=False).raise_for_status()
        environment["PUBSUB_EMULATOR_HOST"] = broker["grpc"]
        with running(module("exporter", environment=environment), tmp_path, lambda: True) as exporter:
            world.submit(jobset("train"))
            subject = f"namespaces/{world.namespace}/jobsets/train"

            def reported() -> list[dict[str, Any]]:
                found = httpx.get(f"{broker['rest']}/admin/messages", params={"topic": topic}, trust_env=False)
                messages = [each["attributes"] for each in found.raise_for_status().json()["messages"]]
                ours = [each for each in messages if f"/{world.namespace}/" in each["ce-subject"]]
                return ours if len(ours) == 2 else []

            demands = wait_for("two demands", reported)
    assert {each["ce-type"] for each in demands} == {"tpuprovisioner.demand.v1"}
    assert {each["ce-subject"] for each in demands} == {subject}
    assert complaints(exporter.log) == []


def nodes(plane: ControlPlane, pool: str) -> list[str]:
    found = plane.api.get("/api/v1/nodes", params={"labelSelector": f"{POOL}={pool}"}).json()["items"]
    return [node["metadata"]["name"] for node in found]


def pool_of_four(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "initialNodeCount": 4,
        "locations": ["us-east5-b"],
        "config": {"machineType": "ct6e-standard-4t"},
        "placementPolicy": {"type": "COMPACT", "tpuTopology": "4x4"},
    }
