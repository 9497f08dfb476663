"""The other stand-ins work against the control plane as against the embedded cluster: over https, by token."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from controlplane_worlds import POOL, World, jobset, wait_for

from local.controlplane.manifests import read_kustomization
from tests.log_records import read_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from local.controlplane.plane import ControlPlane

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "infra/kubernetes"
PARENT = "projects/demo/locations/us-east5/clusters/alpha"
SPEED = "300"


@contextmanager
def running(
    log: Path, module: str, *arguments: str, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", module, *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, env=os.environ | (environment or {})
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=60)


def complaints(log: Path) -> list[dict[str, Any]]:
    records = read_records(log)
    return [record for record in records if record["severity"] not in ("DEBUG", "INFO")]


def test_pools_of_the_fake_gke_and_the_simulated_kubelet_carry_a_jobset_to_its_end(
    plane: ControlPlane, world: World, tmp_path: Path
):
    ports, gke_log, kubelet_log = tmp_path / "ports.json", tmp_path / "gke.log", tmp_path / "kubelet.log"
    place = ("--project=demo", "--location=us-east5", "--cluster=alpha", "--zone=us-east5-b")
    gke_options = (*place, f"--speed={SPEED}", f"--kubernetes={plane.kubeconfig}", f"--ports-file={ports}")
    kubelet_options = (f"--kubeconfig={plane.kubeconfig}", f"--speed={SPEED}", "--run-seconds=60")
    with (
        running(gke_log, "local.fakegke", "serve", *gke_options),
        running(kubelet_log, "local.kubelet", *kubelet_options),
    ):
        wait_for("the fake GKE", ports.exists)
        rest = json.loads(ports.read_text())["rest"]
        world.submit(jobset("train", slices=1))
        wait_for("the leader", world.unschedulable)
        pools = f"{rest}/v1/{PARENT}/nodePools"
        httpx.post(pools, json={"nodePool": pool_of_four("slice-a")}, trust_env=False).raise_for_status()

        wait_for("completion", lambda: world.jobset("train").get("status", {}).get("terminalState") == "Completed")
        assert world.phases() == ["Succeeded"] * 4
        httpx.delete(f"{pools}/slice-a", trust_env=False).raise_for_status()
        wait_for("no nodes", lambda: nodes(plane, "slice-a") == [])

    assert complaints(gke_log) == []
    assert complaints(kubelet_log) == []


def test_a_deleted_pool_takes_its_running_pods_with_it(plane: ControlPlane, world: World, tmp_path: Path):
    ports, gke_log, kubelet_log = tmp_path / "ports.json", tmp_path / "gke.log", tmp_path / "kubelet.log"
    place = ("--project=demo", "--location=us-east5", "--cluster=alpha", "--zone=us-east5-b")
    gke_options = (*place, f"--speed={SPEED}", f"--kubernetes={plane.kubeconfig}", f"--ports-file={ports}")
    kubelet_options = (f"--kubeconfig={plane.kubeconfig}", f"--speed={SPEED}", "--run-seconds=100000")
    with (
        running(gke_log, "local.fakegke", "serve", *gke_options),
        running(kubelet_log, "local.kubelet", *kubelet_options),
    ):
        wait_for("the fake GKE", ports.exists)
        pools = f"{json.loads(ports.read_text())['rest']}/v1/{PARENT}/nodePools"
        world.submit(jobset("train", slices=1, failurePolicy={"maxRestarts": 3}))
        httpx.post(pools, json={"nodePool": pool_of_four("slice-b")}, trust_env=False).raise_for_status()
        wait_for("running pods", lambda: world.phases() == ["Running"] * 4)
        httpx.delete(f"{pools}/slice-b", trust_env=False).raise_for_status()

        wait_for("no nodes", lambda: nodes(plane, "slice-b") == [])
        wait_for("a new leader", lambda: len(world.unschedulable()) == 1 and len(world.pods()) == 1)

    assert complaints(gke_log) == []
    assert complaints(kubelet_log) == []


def test_the_exporter_reports_demand_with_no_more_than_its_own_account(
    plane: ControlPlane, world: World, tmp_path: Path
):
    plane.apply(read_kustomization(MANIFESTS / "local"))
    account, log = "tpu-provisioner-exporter", tmp_path / "exporter.log"
    plane.write_account_kubeconfig(tmp_path / "kubeconfig", "tpu-provisioner", account)
    ports, topic = tmp_path / "pubsub.json", "projects/demo/topics/workload-events"
    environment = {
        "TPU_PROVISIONER_CLUSTER": PARENT,
        "TPU_PROVISIONER_TOPIC": topic,
        "TPU_PROVISIONER_KUBECONFIG": str(tmp_path / "kubeconfig"),
        "TPU_PROVISIONER_HTTP_PORT": "0",
        "TPU_PROVISIONER_CREDENTIALS": "anonymous",
    }
    with running(tmp_path / "pubsub.log", "local.pubsub", "serve", f"--ports-file={ports}"):
        wait_for("Pub/Sub", ports.exists)
        broker = json.loads(ports.read_text())
        httpx.put(f"{broker['rest']}/v1/{topic}", trust_env=False).raise_for_status()
        environment["TPU_PROVISIONER_PUBSUB_ENDPOINT"] = broker["rest"]
        with running(log, "exporter", environment=environment):
            world.submit(jobset("train"))
            subjects = {f"namespaces/{world.namespace}/pods/train-slice-{slice_}-0" for slice_ in (0, 1)}

            def reported() -> list[dict[str, Any]]:
                found = httpx.get(f"{broker['rest']}/admin/messages", params={"topic": topic}, trust_env=False)
                messages = [each["attributes"] for each in found.raise_for_status().json()["messages"]]
                ours = [each for each in messages if f"/{world.namespace}/" in each["ce-subject"]]
                return ours if len(ours) == 2 else []

            demands = wait_for("two demands", reported)
    assert {each["ce-type"] for each in demands} == {"tpuprovisioner.demand.v1"}
    assert {each["ce-subject"].rsplit("-", 1)[0] for each in demands} == subjects
    assert complaints(log) == []


def nodes(plane: ControlPlane, pool: str) -> list[str]:
    found = plane.api.get("/api/v1/nodes", dict, {"labelSelector": f"{POOL}={pool}"})["items"]
    return [node["metadata"]["name"] for node in found]


def pool_of_four(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "initialNodeCount": 4,
        "locations": ["us-east5-b"],
        "config": {"machineType": "ct6e-standard-4t"},
        "placementPolicy": {"type": "COMPACT", "tpuTopology": "4x4"},
    }
