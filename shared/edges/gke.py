"""GKE's node pools by google-cloud-container, in the words of `shared.model.ports.NodePools`.

The client speaks REST: a channel of gRPC does not survive a fork, and gunicorn forks. It repeats no
call, because the caller decides again from what it finds.
https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.nodePools
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any

from google.api_core.client_options import ClientOptions
from google.cloud.container_v1.services.cluster_manager import ClusterManagerClient
from google.cloud.container_v1.services.cluster_manager.transports import (
    ClusterManagerRestTransport,
)
from google.cloud.container_v1.types import (
    Cluster,
    CreateNodePoolRequest,
    DeleteNodePoolRequest,
    GetClusterRequest,
    GetNodePoolRequest,
    ListNodePoolsRequest,
    ListNodePoolsResponse,
    ListOperationsRequest,
    ListOperationsResponse,
    NodePool,
    Operation,
    ReservationAffinity,
    SetNodePoolSizeRequest,
)
from google.protobuf import json_format

from shared.core.identity.creations import Creation
from shared.edges.clock import SYSTEM_CLOCK
from shared.edges.google_calls import translate_errors
from shared.edges.google_session import Deadline, GoogleSession, bound_session
from shared.edges.instance_groups import InstanceGroups
from shared.model.counts import bound_count
from shared.model.errors import NotFound, Unavailable
from shared.model.pools import PoolSnapshot, parse_status
from shared.model.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.edges.google_account import GoogleAccount
    from shared.model.readings import Machines
    from shared.model.times import Clock

CHANNEL_SECONDS = 300
"""How long the release channel of a cluster is not read again: it almost never changes."""
_ERROR_LENGTH_MAX = 600
_DEPLOYMENT = "tpu-provisioner-deployment"
"""A label of machines, which Terraform adds to the setting `resource_labels`."""
_RESERVED = (
    ReservationAffinity.Type.SPECIFIC_RESERVATION,
    ReservationAffinity.Type.ANY_RESERVATION_THEN_FAIL,
)


class _Transport(ClusterManagerRestTransport):
    """REST, with each request sent once and in time."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        bound_session(self._session, self._host)


class GkeNodePools:
    """`shared.model.ports.NodePools` over google-cloud-container and Compute Engine's REST."""

    def __init__(
        self,
        endpoint: str,
        account: GoogleAccount,
        *,
        compute_endpoint: str = "",
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Prepare; nothing is sent or opened yet.

        Args:
            endpoint: Base URL of the GKE API.
            account: Whose credentials are used.
            compute_endpoint: Base URL of the Compute Engine API; empty where one answers for both.
            clock: The time of day.
        """
        self._endpoint, self._account, self._clock = endpoint.rstrip("/"), account, clock
        self._compute = GoogleSession(compute_endpoint or endpoint, account, clock=clock)
        self.groups = InstanceGroups(self._compute)
        self._channel_lock = threading.Lock()
        self._channels: dict[str, tuple[str, float]] = {}
        """By cluster: its release channel, and when that was read, in unix seconds."""
        self._lock = threading.Lock()
        self._client: Any = None  # google-cloud-container's types are those of proto-plus

    def open(self) -> None:
        """Open the clients and get the access token now, so that the first call need not wait.

        Raises:
            Denied, Unavailable: there is no Google account, or it gets no token.
        """
        self._account.give_token()
        self._open()
        self._compute.open()

    def create(self, cluster: str, node_pool: Mapping[str, Any]) -> None:
        """Submit one pool; promptly, because the stop was read just now."""
        request = CreateNodePoolRequest(parent=cluster)
        json_format.ParseDict(
            node_pool, CreateNodePoolRequest.pb(request).node_pool
        )  # assumes: fields
        self.call(
            "create_node_pool", request, f"{cluster}/nodePools/{node_pool['name']}", promptly=True
        )

    def get(self, cluster: str, name: str) -> PoolSnapshot | None:
        """Return one pool, or None."""
        path = f"{cluster}/nodePools/{name}"
        try:
            found = _read(
                NodePool.pb(self.call("get_node_pool", GetNodePoolRequest(name=path), path))
            )
        except NotFound:  # assumes: read-after-create
            return None
        if found.name != name:
            raise Unavailable(
                f"GKE's answer cannot be read: it is about node pool {found.name!r}, not {name!r}"
            )
        return found

    def list(self, cluster: str) -> list[PoolSnapshot]:
        """Return every pool."""
        answer = self.call("list_node_pools", ListNodePoolsRequest(parent=cluster), cluster)
        return [
            _read(pool) for pool in ListNodePoolsResponse.pb(answer).node_pools
        ]  # assumes: list-after-create

    def find_channel(self, cluster: str) -> str:
        """Return the release channel of a cluster, or empty, read `CHANNEL_SECONDS` ago at most.

        Who asks while it is being read waits for it. An error is not kept.
        """
        with self._channel_lock:
            found, read_at = self._channels.get(cluster, ("", -math.inf))
            now = self._clock.now()
            if not 0 <= now - read_at <= CHANNEL_SECONDS:
                answer = Cluster.pb(
                    self.call("get_cluster", GetClusterRequest(name=cluster), cluster)
                )
                if answer.name != cluster.rpartition("/")[2]:  # assumes: channel-told
                    raise Unavailable(
                        f"GKE's answer cannot be read: it is about cluster {answer.name!r}"
                    )
                found = str(json_format.MessageToDict(answer.release_channel).get("channel", ""))
                self._channels[cluster] = (found, now)
            return found

    def list_creations(self, cluster: str) -> Sequence[Creation]:
        """Return the creations of a cluster's pools, from the operations of its location."""
        location, _, name = cluster.rpartition("/clusters/")
        answer = self.call("list_operations", ListOperationsRequest(parent=location), location)
        # A target names the project by its number, and a zone by ``zones``.
        path = f"/{location.rpartition('/')[2]}/clusters/{name}/nodePools/"  # assumes: operation-fields
        return [
            _read_creation(each, each.target_link.rpartition(path)[2])
            for each in ListOperationsResponse.pb(answer).operations
            if each.operation_type == Operation.Type.CREATE_NODE_POOL and path in each.target_link
        ]

    def delete(self, cluster: str, name: str) -> None:
        """Submit a deletion; an absent pool is success."""
        path = f"{cluster}/nodePools/{name}"
        try:
            self.call("delete_node_pool", DeleteNodePoolRequest(name=path), path, promptly=True)
        except NotFound:  # assumes: missing-pool
            return

    def measure(self, pool: PoolSnapshot) -> int:
        """Return the target size of the instance groups: a pool's own count ignores resizes."""
        return self.groups.measure(pool)

    def read_machines(self, pool: PoolSnapshot) -> Machines:
        """Return what the instance groups say of their machines."""
        return self.groups.read_machines(pool)

    def resize(self, cluster: str, name: str, nodes: int) -> None:
        """Submit another size."""
        path = f"{cluster}/nodePools/{name}"
        request = SetNodePoolSizeRequest(name=path, node_count=nodes)
        self.call("set_node_pool_size", request, path, promptly=True)  # assumes: set-size

    def list_missing(self, pool: PoolSnapshot) -> Sequence[str]:
        """Return the instances that the groups are creating, and try to create again for ever."""
        return self.groups.list_missing(pool)

    def remove_nodes(self, pool: PoolSnapshot, names: Sequence[str]) -> None:
        """Remove nodes by name."""
        self.groups.remove_nodes(pool, names)

    def call(self, method: str, request: Any, about: str, *, promptly: bool = False) -> Any:
        """Return the answer to one call, which is made once.

        Raises:
            ProvisionerError: the leaf of `shared.model.errors` that the table of `google_errors`
                finds; `Unavailable` when there was no answer, or none that can be read.
        """
        deadline = Deadline(self._clock, promptly=promptly)
        call = f"{type(request).__name__.removesuffix('Request')} {about}"
        with translate_errors(call):
            return getattr(self._open(), method)(request, retry=None, timeout=deadline)

    def _open(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = ClusterManagerClient(
                    credentials=self._account.find_credentials(),
                    transport=_Transport,
                    client_options=ClientOptions(api_endpoint=self._endpoint),
                )
            return self._client


def _read(pool: Any) -> PoolSnapshot:
    """Return one pool of an answer: a message of protobuf, without proto-plus around it."""
    if not pool.name:
        raise Unavailable("GKE's answer cannot be read: a node pool has no name")
    messages = [condition.message for condition in pool.conditions if condition.message]
    return PoolSnapshot(
        name=pool.name,
        status=parse_status(pool.status),
        labels=dict(pool.config.labels),
        # An autoscaled pool starts empty: what it may grow to is what was asked for.
        node_count=max(
            0, pool.initial_node_count or pool.autoscaling.max_node_count
        ),  # assumes: initial-count
        machine_type=pool.config.machine_type,
        topology=pool.placement_policy.tpu_topology,
        gpus_per_node=sum(
            max(0, bound_count(each.accelerator_count)) for each in pool.config.accelerators
        ),
        group_urls=tuple(pool.instance_group_urls),  # assumes: group-urls
        error="; ".join(messages) or pool.status_message,
        deployment=pool.config.resource_labels.get(_DEPLOYMENT, ""),
        reserved=pool.config.reservation_affinity.consume_reservation_type in _RESERVED,
        spot=pool.config.spot,
        flex_start=pool.config.flex_start,
        autoscaled=pool.autoscaling.enabled,
    )


def _read_creation(found: Any, pool: str) -> Creation:
    """Return a creation. The status text, if there is one, says more than the error."""
    ended = found.status == Operation.Status.DONE
    code = f"error {found.error.code}" if found.error.code else ""
    error = found.status_message or found.error.message or code  # assumes: operation-error
    return Creation(
        pool=pool,
        ended=ended,
        error=error[:_ERROR_LENGTH_MAX] if ended else "",
        code=found.error.code if ended else 0,
        began_at=parse_time(found.start_time),
        ended_at=parse_time(found.end_time) if ended else None,
    )
