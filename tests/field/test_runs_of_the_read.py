"""What `plan` reads of the field, the functions read too: the same disk, zone and server."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.engine.world import FakeGke
from tests.field.field_world import FieldWorld, read_input

SIDECAR = {
    "name": "gke-gcsfuse-sidecar",
    "restartPolicy": "Always",
    "resources": {"requests": {"cpu": "250m", "memory": "256Mi", "ephemeral-storage": "5Gi"}},
}
Json = Mapping[str, Any]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Json]:
    """The bodies of the pools that are created."""
    bodies, create = list[Json](), FakeGke.create

    def note(self: FakeGke, cluster: str, node_pool: Json) -> None:
        bodies.append(node_pool)
        create(self, cluster, node_pool)

    monkeypatch.setattr(FakeGke, "create", note)
    return bodies


def run_job(name: str, workload: str, *, injected: bool = False) -> None:
    """The Job controller makes a pod, a webhook may change it, and `provision` answers."""
    world = FieldWorld(read_input(name, workload))
    template = world.body["spec"]["template"]
    spec = {**template["spec"], "initContainers": [SIDECAR] * injected}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": workload, "uid": f"uid-of-{workload}"}
    annotations = template.get("metadata", {}).get("annotations")
    world.add_pod(f"{workload}-0", spec, owner, {"batch.kubernetes.io/job-name": workload}, annotations)

    world.provision()
    world.tick("provision")


@pytest.mark.parametrize("injected", [False, True])
def test_the_sidecar_counts_once_whether_the_webhook_was_there_or_not(sent: list[Json], *, injected: bool) -> None:
    run_job("storage-fuse.yaml", "injected", injected=injected)

    assert [each["config"]["diskSizeGb"] for each in sent] == [110]


@pytest.mark.parametrize("workload", ["gpu-by-selector", "gpu-by-affinity", "gpu-by-request", "pool-by-name"])
def test_nothing_is_bought_for_what_gke_provides(workload: str, sent: list[Json]) -> None:
    run_job("queued-provisioning.yaml", workload)

    assert sent == []


def test_an_old_label_of_the_zone_places_the_pool(sent: list[Json]) -> None:
    world = FieldWorld(read_input("renamed-labels.yaml", "affinity"))
    spec = world.body["spec"]["template"]["spec"]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "affinity-h"}
    world.add_pod("affinity-h-x", spec, owner, {"pod-template-hash": "h"})

    world.provision()

    assert [each["locations"] for each in sent] == [["us-east5-a"]]
