"""GKE's node pools by google-cloud-container, in the words of `shared.engine.outside`.

Each function gets a class with its own verb only. The client speaks REST: a channel of gRPC does
not survive a fork, and gunicorn forks. It repeats no call, because the caller looks again.
https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.nodePools
"""

from __future__ import annotations

import math
import threading
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from google.api_core.client_options import ClientOptions
from google.cloud.container_v1 import types as api
from google.cloud.container_v1.services.cluster_manager import ClusterManagerClient
from google.cloud.container_v1.services.cluster_manager.transports import (
    ClusterManagerRestTransport,
)
from google.protobuf import json_format

from shared.edges.clock import SYSTEM_CLOCK
from shared.edges.connection import Connection, GkeConnection, TokenFile
from shared.edges.google import Deadline, GoogleSession, bound_session, translate_errors
from shared.edges.kubernetes import AGENT, KubernetesApi
from shared.edges.machines import InstanceGroups
from shared.model import labels
from shared.model.errors import ClusterNotFound, NotFound, Unavailable
from shared.model.pools import NodePool, Operation, parse_status
from shared.model.times import bound_count, parse_time
from shared.model.workloads import Taint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.edges.google import GoogleAccount
    from shared.model.pools import Machines
    from shared.model.times import Clock
    from shared.settings import ClusterSettings

CLUSTER_SECONDS = 50
"""How long GKE's description of a cluster is not read again: each tick does."""


class _Transport(ClusterManagerRestTransport):
    """REST, with each request sent once and in time."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        bound_session(self._session, self._host)


class GkePools:
    """What both functions read of GKE, and of Compute Engine for its machines."""

    def __init__(
        self,
        endpoint: str,
        account: GoogleAccount,
        *,
        compute_endpoint: str = "",
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Prepare; nothing is sent or opened yet. One endpoint may answer for both APIs."""
        self._endpoint, self._account, self._clock = endpoint.rstrip("/"), account, clock
        self._gke = GoogleSession(endpoint, account, clock=clock)
        self._compute = InstanceGroups(compute_endpoint or endpoint, account, clock=clock)
        self._clusters_lock = threading.Lock()
        self._clusters: dict[str, tuple[Any, float]] = {}
        """By name: GKE's description of a cluster, and when that was read, in unix seconds."""

    def open(self) -> None:
        """Open the clients and get the access token now, so that the first call need not wait."""
        self._account.give_token()
        _ = self._client, self._gke.session, self._compute.session

    def list(self, cluster: str) -> Sequence[NodePool]:
        """Return every pool of a cluster."""
        answer = self.call("list_node_pools", api.ListNodePoolsRequest(parent=cluster), cluster)
        pools = api.ListNodePoolsResponse.pb(answer).node_pools  # assumes: list-after-create
        return [read_pool(pool) for pool in pools]

    def get(self, cluster: str, name: str) -> NodePool | None:
        """Return one pool, or None if GKE says that it has none of that name."""
        path = f"{cluster}/nodePools/{name}"
        try:
            answer = self.call("get_node_pool", api.GetNodePoolRequest(name=path), path)
        except NotFound as error:  # assumes: read-after-create
            _expect_named(name, error)
            return None
        pool = read_pool(api.NodePool.pb(answer))
        if pool.name != name:
            raise Unavailable(
                f"GKE's answer cannot be read: it is about node pool {pool.name!r}, not {name!r}"
            )
        return pool

    def list_operations(self, cluster: str) -> Sequence[Operation]:
        """Return the creates and deletes of a cluster's pools, from its location's operations."""
        location, _, name = cluster.rpartition("/clusters/")
        answer = self.call("list_operations", api.ListOperationsRequest(parent=location), location)
        # A target names the project by its number, and a zone by ``zones``.
        place = location.rpartition("/")[2]
        path = f"/{place}/clusters/{name}/nodePools/"  # assumes: operation-fields
        return [
            read_operation(each, each.target_link.rpartition(path)[2])
            for each in api.ListOperationsResponse.pb(answer).operations
            if each.operation_type in MADE and path in each.target_link
        ]

    def read_machines(self, pool: NodePool) -> Machines:
        """Return what the instance groups of a pool say of their machines."""
        return self._compute.read_machines(pool)

    def find_channel(self, cluster: str) -> str:
        """Return the release channel of a cluster, or empty, read `CLUSTER_SECONDS` ago at most."""
        channel = self._describe(cluster).release_channel
        return str(json_format.MessageToDict(channel).get("channel", ""))  # assumes: channel-told

    def locate(self, cluster: str, *, private: bool = False) -> tuple[str, str]:
        """Return the URL of a cluster's Kubernetes API, and its authority in base64.

        The DNS endpoint has none, because a public one signs it.
        """
        described = self._describe(cluster)
        ways = described.control_plane_endpoints_config
        host, authority = ways.dns_endpoint_config.endpoint, ""  # assumes: dns-endpoint
        if private:
            host = ways.ip_endpoints_config.private_endpoint
            authority = described.master_auth.cluster_ca_certificate
        if not host:
            way = "private address" if private else "DNS endpoint"
            raise Unavailable(f"cluster {cluster} has no {way} for its Kubernetes API")
        return f"https://{host}", authority

    def _describe(self, cluster: str) -> Any:
        """Return what GKE says of a cluster. Who asks while it is read waits; no error is kept."""
        with self._clusters_lock:
            described, read_at = self._clusters.get(cluster, (None, -math.inf))
            now = self._clock.now()
            if 0 <= now - read_at <= CLUSTER_SECONDS:
                return described
            request = api.GetClusterRequest(name=cluster)
            try:
                described = api.Cluster.pb(self.call("get_cluster", request, cluster))
            except NotFound as error:  # which would be taken for the absence of an object in it
                raise ClusterNotFound(str(error)) from error
            if described.name != cluster.rpartition("/")[2]:
                what = f"it is about cluster {described.name!r}"
                raise Unavailable(f"GKE's answer cannot be read: {what}")
            self._clusters[cluster] = described, now
            return described

    def call(self, method: str, request: Any, about: str, *, promptly: bool = False) -> Any:
        """Return the answer to one call, which is made once."""
        deadline = Deadline(self._clock, promptly=promptly)
        call = f"{type(request).__name__.removesuffix('Request')} {about}"
        with translate_errors(call):
            return getattr(self._client, method)(request, retry=None, timeout=deadline)

    def _bound(self, cluster: str, name: str, *, least: int, most: int) -> None:
        """Give GKE's autoscaler new bounds for a pool; a maximum of 0 turns it off."""
        path = f"{cluster}/nodePools/{name}"
        scaling = api.NodePoolAutoscaling(
            enabled=most > 0, min_node_count=least, max_node_count=most
        )  # assumes: set-autoscaling
        request = api.SetNodePoolAutoscalingRequest(name=path, autoscaling=scaling)
        self.call("set_node_pool_autoscaling", request, path, promptly=True)

    @cached_property
    def _client(self) -> ClusterManagerClient:
        return ClusterManagerClient(
            credentials=self._account.credentials,
            transport=_Transport,
            client_options=ClientOptions(api_endpoint=self._endpoint),
        )


def open_apis(
    clusters: Mapping[str, ClusterSettings],
    pools: GkePools,
    account: GoogleAccount,
    agent: str = AGENT,
) -> dict[str, KubernetesApi]:
    """Return the Kubernetes API of each cluster, where GKE says that it is."""
    apis = {}
    for name, cluster in clusters.items():
        token = TokenFile(Path(cluster.token_file)) if cluster.token_file else account.give_token
        connection: Connection
        if cluster.endpoint:
            connection = Connection(url=cluster.endpoint, token=token, ca_file=cluster.ca_file)
        else:
            connection = GkeConnection(partial(pools.locate, name, private=cluster.private), token)
        apis[name] = KubernetesApi(connection, user_agent=agent)
    return apis


class GkeAdds(GkePools):
    """What `provision` may do."""

    def create(self, cluster: str, node_pool: Mapping[str, Any]) -> None:
        """Submit one pool; promptly, because the stop was read just now."""
        # By the session: the way of a body through the client takes a quarter of an event.
        body = {"nodePool": node_pool}  # assumes: fields
        self._gke.call("POST", f"v1/{cluster}/nodePools", body, promptly=True)

    def raise_maximum(self, cluster: str, name: str, nodes: int, *, least: int = 0) -> None:
        """Let GKE's autoscaler give a pool so many nodes, and never fewer than `least`."""
        self._bound(cluster, name, least=least, most=nodes)


class GkeTakes(GkePools):
    """What `collect` may do."""

    def delete(self, cluster: str, name: str) -> None:
        """Submit a deletion; an absent pool is success."""
        path = f"{cluster}/nodePools/{name}"
        try:
            self.call("delete_node_pool", api.DeleteNodePoolRequest(name=path), path, promptly=True)
        except NotFound as error:  # assumes: missing-pool
            _expect_named(name, error)

    def lower_maximum(self, cluster: str, name: str, nodes: int) -> None:
        """Bound a pool to fewer nodes; 0 turns its autoscaling off."""
        self._bound(cluster, name, least=0, most=nodes)


def _expect_named(name: str, error: NotFound) -> None:
    """Pass over a 404 that names the pool; any other one proves nothing about it."""
    if isinstance(error, ClusterNotFound) or name not in str(error):
        raise Unavailable(f"cannot tell whether node pool {name} exists: {error}") from error


_ERROR_LENGTH_MAX = 600
_EFFECTS = {
    api.NodeTaint.Effect.NO_SCHEDULE: "NoSchedule",
    api.NodeTaint.Effect.PREFER_NO_SCHEDULE: "PreferNoSchedule",
    api.NodeTaint.Effect.NO_EXECUTE: "NoExecute",
}
_STRATEGIES = {1: "TIME_SHARING", 2: "MPS"}
"""``GPUSharingConfig.GPUSharingStrategy``."""
CREATES = api.Operation.Type.CREATE_NODE_POOL
MADE = (CREATES, api.Operation.Type.DELETE_NODE_POOL)
"""The operations that are read: a create or a delete of a pool."""


def read_pool(pool: Any) -> NodePool:
    """Return one pool of an answer; one without a name is none of GKE's."""
    if not pool.name:
        raise Unavailable("GKE's answer cannot be read: a node pool has no name")
    config, gpus = pool.config, list(pool.config.accelerators)
    affinity, words = config.reservation_affinity, [each.message for each in pool.conditions]
    return NodePool(
        name=pool.name,
        status=parse_status(pool.status),
        labels=dict(config.labels),
        taints=tuple(
            Taint(each.key, each.value, _EFFECTS.get(each.effect, "")) for each in config.taints
        ),
        machine_type=config.machine_type,
        accelerator=gpus[0].accelerator_type if gpus else "",
        gpus_per_node=sum(max(0, bound_count(each.accelerator_count)) for each in gpus),
        sharing=_read_sharing(gpus[0]) if gpus else "",
        topology=pool.placement_policy.tpu_topology,
        policy=pool.placement_policy.policy_name.rpartition("/")[2],
        # An autoscaled pool starts empty: what it may grow to is what was asked for.
        node_count=max(
            0, pool.autoscaling.max_node_count or pool.initial_node_count
        ),  # assumes: initial-count
        zones=tuple(pool.locations),
        spot=config.spot,
        flex_start=config.flex_start,
        reservation=affinity.values[0] if affinity.values else "",
        autoscaled=pool.autoscaling.enabled,
        group_urls=tuple(pool.instance_group_urls),  # assumes: group-urls
        error="; ".join(filter(None, words)) or pool.status_message,
        deployment=config.resource_labels.get(labels.DEPLOYMENT, ""),
    )


def _read_sharing(gpu: Any) -> str:
    """Return how pods share a GPU, as `PoolShape.sharing` says it; empty for whole GPUs."""
    shared = gpu.gpu_sharing_config
    strategy = _STRATEGIES.get(shared.gpu_sharing_strategy, "")
    if not gpu.gpu_partition_size and not strategy:
        return ""
    return f"{gpu.gpu_partition_size}/{strategy}/{bound_count(shared.max_shared_clients_per_gpu)}"


def read_operation(operation: Any, pool: str) -> Operation:
    """Return an operation. The status text, if there is one, says more than the error."""
    ended = operation.status == api.Operation.Status.DONE
    code = f"error {operation.error.code}" if operation.error.code else ""
    error = operation.status_message or operation.error.message or code  # assumes: operation-error
    return Operation(
        pool=pool,
        creates=operation.operation_type == CREATES,
        ended=ended,
        error=error[:_ERROR_LENGTH_MAX] if ended else "",
        began_at=parse_time(operation.start_time),
        ended_at=parse_time(operation.end_time) if ended else None,
    )
