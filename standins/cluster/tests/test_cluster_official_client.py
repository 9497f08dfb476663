"""The official Python client with each of the two clusters."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import kubernetes as official
import pytest

from standins.cluster.tests.cluster_objects import jobset, node
from standins.processes.stand_ins import wait_until

kubernetes: Any = official
"""Its types make every field optional; the tests here are about the values."""


@pytest.fixture
def api(kubeconfig: Path) -> Iterator[Any]:
    with kubernetes.config.new_client_from_config(config_file=str(kubeconfig)) as client:
        yield client


def test_every_kind_of_a_run_is_read_and_watched(api: Any, namespace: str, http: httpx.Client) -> None:
    core, batch = kubernetes.client.CoreV1Api(api), kubernetes.client.BatchV1Api(api)
    custom = kubernetes.client.CustomObjectsApi(api)
    version = core.list_namespaced_pod(namespace).metadata.resource_version
    custom.create_namespaced_custom_object("jobset.x-k8s.io", "v1alpha2", namespace, "jobsets", jobset("a"))
    http.post("/api/v1/nodes", json=node(f"{namespace}-n", 0)).raise_for_status()

    wait_until(lambda: batch.list_namespaced_job(namespace).items)
    wait_until(lambda: core.list_namespaced_event(namespace).items)
    (job,) = batch.list_namespaced_job(namespace).items
    stream = kubernetes.watch.Watch().stream(
        core.list_namespaced_pod, namespace, resource_version=version, timeout_seconds=3
    )
    seen = list(stream)

    assert job.spec.completion_mode == "Indexed"
    assert (seen[0]["type"], seen[0]["object"].metadata.name[:9]) == ("ADDED", "a-slice-0")


def test_a_lease_serves_an_election(api: Any, namespace: str) -> None:
    leases = kubernetes.client.CoordinationV1Api(api)
    now = datetime.now(UTC)
    spec = kubernetes.client.V1LeaseSpec(holder_identity="me", lease_duration_seconds=15, renew_time=now)
    metadata = kubernetes.client.V1ObjectMeta(name="exporter", namespace=namespace)
    created = leases.create_namespaced_lease(namespace, kubernetes.client.V1Lease(metadata=metadata, spec=spec))
    created.spec.holder_identity = "you"

    assert leases.replace_namespaced_lease("exporter", namespace, created).spec.renew_time == now
    with pytest.raises(kubernetes.client.ApiException) as conflict:
        leases.replace_namespaced_lease("exporter", namespace, created)
    assert conflict.value.status == 409
