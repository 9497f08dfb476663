"""Our own handler with other clients in it; `BENCHMARK_CLIENTS` names which, comma-separated.

logging: google-cloud-logging beside the JSON on stdout. kubernetes: the official client instead of
urllib3.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import functions_framework
import msgspec
from flask import Response

from shared.core.kinds.table import get_kind, select_pods_of
from shared.deliver import deliver
from shared.edges.event_writer import format_event
from shared.edges.google_account import GoogleAccount
from shared.edges.kubernetes_api import Connection, KubernetesApi
from shared.edges.kubernetes_cluster import KubernetesCluster
from shared.edges.structured_logs import start_logging
from shared.edges.workload_objects import Pod, read_workload, view_pod
from shared.environment import read_settings
from shared.wiring import build_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flask import Request

    from shared.core.ports import Cluster, Notice
    from shared.core.workloads import PodView, WorkloadView

CLIENTS = frozenset(os.environ["BENCHMARK_CLIENTS"].split(","))
ACCOUNT = GoogleAccount()


class OfficialCluster(KubernetesCluster):
    """The cluster by the official Kubernetes client, typed where it has types."""

    def __init__(self, endpoint: str) -> None:
        import kubernetes.client  # noqa: PLC0415 -- only this variant pays for it

        official: Any = kubernetes.client
        configuration = official.Configuration(host=endpoint)
        configuration.api_key = {"authorization": f"Bearer {ACCOUNT.give_token()}"}
        self._official = official.ApiClient(configuration)
        self._core = official.CoreV1Api(self._official)
        self._custom = official.CustomObjectsApi(self._official)
        super().__init__(KubernetesApi(Connection(url=endpoint)))

    def list_waiting_leaders(self, workload: WorkloadView | None = None) -> Iterator[PodView]:
        """Yield the pods of a workload."""
        if workload is None:
            return
        found = self._core.list_namespaced_pod(workload.namespace, label_selector=select_pods_of(workload))
        for each in self._official.sanitize_for_serialization(found)["items"]:
            yield view_pod(msgspec.convert(each, Pod))

    def get_workload(self, kind: str, namespace: str, name: str) -> WorkloadView | None:
        """Return one workload."""
        read = get_kind(kind)
        version = read.api_version.rpartition("/")[2]
        found = self._custom.get_namespaced_custom_object(read.group, version, namespace, read.plural, name)
        return read_workload(read, found)

    def write_notice(self, notice: Notice) -> None:
        """Write one Event."""
        event = format_event(notice, f"{notice.name}.1", component="tpu-provisioner", now="2026-11-20T10:00:00Z")
        self._core.create_namespaced_event(notice.namespace, event)


start_logging("provision")
if "logging" in CLIENTS:
    import google.cloud.logging
    from google.cloud.logging import handlers

    CLOUD_LOGGING: Any = google.cloud.logging
    HANDLERS: Any = handlers
    CLIENT = CLOUD_LOGGING.Client(credentials=ACCOUNT.find_credentials(), project="bench-project")
    HANDLERS.setup_logging(HANDLERS.StructuredLogHandler())
SETTINGS = read_settings(os.environ)
PORTS = build_ports(SETTINGS)
if "kubernetes" in CLIENTS:
    CLUSTERS: dict[str, Cluster] = {
        name: OfficialCluster(each.endpoint) for name, each in SETTINGS.clusters.items()
    }
    PORTS = replace(PORTS, clusters=CLUSTERS)


@functions_framework.http
def provision(request: Request) -> Response:
    """Answer a push about an unschedulable leader pod."""
    answer = deliver("provision", request.get_data(cache=False), PORTS, {})
    return Response("", status=answer.status)
