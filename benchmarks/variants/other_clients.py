"""Our own handler with other clients under it; `BENCHMARK_CLIENTS` names which, comma-separated.

auth: all as in production, only the token by google-auth over urllib3. session: GKE over REST by google-auth's
AuthorizedSession (requests). container: GKE by google-cloud-container. All three get their tokens by google-auth.
logging: google-cloud-logging beside the JSON on stdout. kubernetes: the official client instead of urllib3.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import functions_framework
import google.auth
import msgspec
import urllib3
from flask import Response

from shared.configuration import read_settings
from shared.core.kinds.table import get_kind
from shared.deliver import deliver
from shared.edges.clock import SystemClock
from shared.edges.cluster import KubernetesCluster
from shared.edges.gke import GkeNodePools
from shared.edges.google_rest import GoogleRest
from shared.edges.kubernetes_api import Connection, KubernetesApi
from shared.edges.logs import start_logging
from shared.edges.workload_objects import Pod, read_workload, view_pod
from shared.perform.outcome import Ports

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flask import Request

    from shared.core.ports import Cluster, Notice
    from shared.core.workloads import PodView, WorkloadView

CLIENTS = frozenset(os.environ["BENCHMARK_CLIENTS"].split(","))
HTTP = urllib3.PoolManager()


def build_token_request() -> Any:
    """Return the transport that fetches tokens: urllib3's if nothing here needs requests anyway."""
    # Any, here and below: the libraries of the variants are untyped, and none of them is ours to annotate.
    if "auth" in CLIENTS:
        from google.auth.transport import urllib3 as transport  # noqa: PLC0415 -- only this variant pays for it

        over_urllib3: Any = transport.Request
        return over_urllib3(HTTP)
    from google.auth.transport.requests import Request as OverRequests  # noqa: PLC0415 -- as above

    return OverRequests()


_TOKEN_REQUEST: Any = build_token_request()
CREDENTIALS: Any = google.auth.default(
    scopes=["https://www.googleapis.com/auth/cloud-platform"], request=_TOKEN_REQUEST
)[0]


def give_token() -> str:
    """Return a valid token of google-auth."""
    if not CREDENTIALS.valid:
        CREDENTIALS.refresh(_TOKEN_REQUEST)
    return str(CREDENTIALS.token)


class SessionRest:
    """`shared.edges.google_rest.GoogleRest`, the happy path only, over requests."""

    def __init__(self, endpoint: str) -> None:
        from google.auth.transport.requests import AuthorizedSession  # noqa: PLC0415 -- only this variant pays

        open_session: Any = AuthorizedSession
        self._session, self._endpoint = open_session(CREDENTIALS), endpoint

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        """Return the body of the answer."""
        response = self._session.request(method, f"{self._endpoint}/{path}", json=body, timeout=30)
        response.raise_for_status()
        return bytes(response.content)


class ContainerPools(GkeNodePools):
    """GKE by google-cloud-container; only creating is measured."""

    def __init__(self) -> None:
        import grpc  # noqa: PLC0415 -- only this variant pays for it
        from google.cloud.container_v1 import ClusterManagerClient, NodePool  # noqa: PLC0415 -- as above
        from google.cloud.container_v1.services.cluster_manager.transports import (  # noqa: PLC0415 -- as above
            ClusterManagerGrpcTransport,
        )

        channel = grpc.insecure_channel(os.environ["BENCHMARK_GKE_GRPC"])
        self._client = ClusterManagerClient(transport=ClusterManagerGrpcTransport(channel=channel))
        self._node_pool = NodePool

    def create(self, cluster: str, node_pool: Mapping[str, Any]) -> None:
        """Submit one pool. The token goes by hand, because grpc sends none over a plaintext channel."""
        self._client.create_node_pool(
            parent=cluster,
            node_pool=self._node_pool.from_json(msgspec.json.encode(node_pool)),
            metadata=[("authorization", f"Bearer {give_token()}")],
        )


class OfficialCluster(KubernetesCluster):
    """The cluster by the official Kubernetes client, typed where it has types."""

    def __init__(self, endpoint: str) -> None:
        import kubernetes.client  # noqa: PLC0415 -- only this variant pays for it

        official: Any = kubernetes.client
        configuration = official.Configuration(host=endpoint)
        configuration.api_key = {"authorization": f"Bearer {give_token()}"}
        self._official = official.ApiClient(configuration)
        self._core = official.CoreV1Api(self._official)
        self._custom = official.CustomObjectsApi(self._official)
        super().__init__(KubernetesApi(Connection(url=endpoint)))

    def get_pod(self, namespace: str, name: str) -> PodView | None:
        """Return one pod."""
        found = self._official.sanitize_for_serialization(self._core.read_namespaced_pod(name, namespace))
        return view_pod(msgspec.convert(found, Pod))

    def get_workload(self, kind: str, namespace: str, name: str) -> WorkloadView | None:
        """Return one workload."""
        read = get_kind(kind)
        version = read.api_version.rpartition("/")[2]
        found = self._custom.get_namespaced_custom_object(read.group, version, namespace, read.plural, name)
        return read_workload(read, found)

    def write_notice(self, notice: Notice) -> None:
        """Write one Event."""
        self._core.create_namespaced_event(
            notice.namespace, self._format_event(notice, f"{notice.name}.1", "2026-11-20T10:00:00Z")
        )


def build_rest(endpoint: str) -> Any:
    """Return what calls GKE over REST."""
    return GoogleRest(endpoint, http=HTTP, token=give_token) if "auth" in CLIENTS else SessionRest(endpoint)


def build_ports() -> Ports:
    """Return ports with the clients that the environment names."""
    settings = read_settings(os.environ)
    pools = ContainerPools() if "container" in CLIENTS else GkeNodePools(build_rest(settings.gke_endpoint))
    clusters: dict[str, Cluster] = {}
    for name, each in settings.clusters.items():
        if "kubernetes" in CLIENTS:
            clusters[name] = OfficialCluster(each.endpoint)
        else:
            clusters[name] = KubernetesCluster(KubernetesApi(Connection(url=each.endpoint, token=give_token)))
    return Ports(settings=settings, pools=pools, clusters=clusters, clock=SystemClock())


start_logging("provision")
if "logging" in CLIENTS:
    import google.cloud.logging
    from google.cloud.logging import handlers

    CLOUD_LOGGING: Any = google.cloud.logging
    HANDLERS: Any = handlers
    CLIENT = CLOUD_LOGGING.Client(credentials=CREDENTIALS, project="bench-project")
    HANDLERS.setup_logging(HANDLERS.StructuredLogHandler())
PORTS = build_ports()


@functions_framework.http
def provision(request: Request) -> Response:
    """Answer a push about an unschedulable leader pod."""
    answer = deliver("provision", request.get_data(cache=False), PORTS, {})
    return Response("", status=answer.status)
