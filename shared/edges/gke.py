"""GKE's node pools and their machines, in the words of `shared.engine.outside`.

By google-cloud-container; each function gets a class with its own verb only. The client speaks
REST: a channel of gRPC does not survive a fork, and gunicorn forks. It repeats no call, because the
caller looks again. The machines of a pool are those of Compute Engine's instance groups: a pool of
ours has one zone and one group, and one that was changed by hand may have more.
https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.nodePools
https://cloud.google.com/compute/docs/reference/rest/v1/instanceGroupManagers
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from google.api_core.client_options import ClientOptions
from google.cloud.container_v1 import types as api
from google.cloud.container_v1.services.cluster_manager import ClusterManagerClient
from google.protobuf import json_format

from shared.edges.connection import Connection, GkeConnection, TokenFile
from shared.edges.google import TIMEOUT_SECONDS, GoogleAccount, GoogleSession, bound_session
from shared.edges.kubernetes import AGENT, KubernetesApi
from shared.edges.process import SYSTEM_CLOCK
from shared.kinds import read
from shared.kinds.read import Json, UnexpectedValue
from shared.model import labels
from shared.model.errors import JSON_ERRORS, ClusterNotFound, NotFound, Unavailable
from shared.model.pools import FillError, Machines, NodePool, Operation, PoolStatus
from shared.model.times import Clock, bound_count, parse_time
from shared.model.workloads import Taint
from shared.settings import GKE_ENDPOINT, ClusterSettings

COMPUTE_ENDPOINT = "https://compute.googleapis.com"
CLUSTER_SECONDS = 50  # how long GKE's description of a cluster is not read again: each tick does
_WORDS_MAX, _GROUP_WORDS_MAX = 600, 400
_UNREADABLE = "GKE's answer cannot be read"


class GkePools:
    """What both functions read of GKE, and of Compute Engine for its machines."""

    def __init__(
        self, endpoint: str, account: GoogleAccount, *, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """Prepare; nothing is sent or opened yet. A stand-in has both APIs at one endpoint."""
        self._endpoint, self._account, self._clock = endpoint.rstrip("/"), account, clock
        compute = COMPUTE_ENDPOINT if self._endpoint == GKE_ENDPOINT else self._endpoint
        self._gke = GoogleSession(endpoint, account, clock=clock)
        self._compute = InstanceGroups(compute, account, clock=clock)
        self.read_machines = self._compute.read_machines
        self._clusters_lock = threading.Lock()
        self._clusters: dict[str, tuple[Any, float]] = {}
        """By name: GKE's description of a cluster, and when that was read, in unix seconds."""

    def list(self, cluster: str) -> Sequence[NodePool]:
        """Return every pool of a cluster."""
        answer = self._call("list_node_pools", api.ListNodePoolsRequest(parent=cluster), cluster)
        pools = api.ListNodePoolsResponse.pb(answer).node_pools  # assumes: list-after-create
        return [read_pool(pool) for pool in pools]

    def get(self, cluster: str, name: str) -> NodePool | None:
        """Return one pool, or None if GKE says that it has none of that name."""
        path = f"{cluster}/nodePools/{name}"
        try:
            answer = self._call("get_node_pool", api.GetNodePoolRequest(name=path), path)
        except NotFound as error:  # assumes: read-after-create
            _expect_named(name, error)
            return None
        _expect_about("node pool", answer.name, name)
        return read_pool(api.NodePool.pb(answer))

    def list_operations(self, cluster: str) -> Sequence[Operation]:
        """Return the creates and deletes of a cluster's pools, from its location's operations."""
        location, _, name = cluster.rpartition("/clusters/")
        request = api.ListOperationsRequest(parent=location)
        answer = self._call("list_operations", request, location)
        # A target names the project by its number, and a zone by ``zones``.
        place = location.rpartition("/")[2]
        path = f"/{place}/clusters/{name}/nodePools/"  # assumes: operation-fields
        return [
            read_operation(each, each.target_link.rpartition(path)[2])
            for each in api.ListOperationsResponse.pb(answer).operations
            if each.operation_type in MADE and path in each.target_link
        ]

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
        way, host, authority = "DNS endpoint", ways.dns_endpoint_config.endpoint, ""
        if private:  # assumes: dns-endpoint
            way, host = "private address", ways.ip_endpoints_config.private_endpoint
            authority = described.master_auth.cluster_ca_certificate
        if not host:
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
                described = api.Cluster.pb(self._call("get_cluster", request, cluster))
            except NotFound as error:  # which would be taken for the absence of an object in it
                raise ClusterNotFound(str(error)) from error
            _expect_about("cluster", described.name, cluster.rpartition("/")[2])
            self._clusters[cluster] = described, now
            return described

    def _call(self, method: str, request: Any, about: str, *, promptly: bool = False) -> Any:
        """Return the answer to one call, which is made once."""
        words = f"{type(request).__name__.removesuffix('Request')} {about}"
        with self._gke.asking(words, promptly=promptly):
            return getattr(self._client, method)(request, retry=None, timeout=TIMEOUT_SECONDS)

    def _bound(self, cluster: str, name: str, *, least: int, most: int) -> None:
        """Give GKE's autoscaler new bounds for a pool; a maximum of 0 turns it off."""
        path = f"{cluster}/nodePools/{name}"
        scaling = api.NodePoolAutoscaling(
            enabled=most > 0, min_node_count=least, max_node_count=most
        )  # assumes: set-autoscaling
        request = api.SetNodePoolAutoscalingRequest(name=path, autoscaling=scaling)
        self._call("set_node_pool_autoscaling", request, path, promptly=True)

    @cached_property
    def _client(self) -> ClusterManagerClient:
        client = ClusterManagerClient(
            credentials=self._account.credentials,
            transport="rest",
            client_options=ClientOptions(api_endpoint=self._endpoint),
        )
        session: Any = vars(client.transport)["_session"]  # no option has it
        bound_session(session, self._endpoint, self._clock)
        return client


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
        self._gke.call("POST", f"v1/{cluster}/nodePools", body)

    def raise_maximum(self, cluster: str, name: str, nodes: int, *, least: int = 0) -> None:
        """Let GKE's autoscaler give a pool so many nodes, and never fewer than `least`."""
        self._bound(cluster, name, least=least, most=nodes)


class GkeTakes(GkePools):
    """What `collect` may do."""

    def delete(self, cluster: str, name: str) -> None:
        """Submit a deletion; an absent pool is success."""
        path = f"{cluster}/nodePools/{name}"
        request = api.DeleteNodePoolRequest(name=path)
        try:
            self._call("delete_node_pool", request, path, promptly=True)
        except NotFound as error:  # assumes: missing-pool
            _expect_named(name, error)

    def lower_maximum(self, cluster: str, name: str, nodes: int) -> None:
        """Bound a pool to fewer nodes; 0 turns its autoscaling off."""
        self._bound(cluster, name, least=0, most=nodes)


def _expect_named(name: str, error: NotFound) -> None:
    """Pass over a 404 that names the pool; any other one proves nothing about it."""
    if name not in str(error):
        raise Unavailable(f"cannot tell whether node pool {name} exists: {error}") from error


def _expect_about(what: str, name: str, expected: str) -> None:
    """Pass over an answer about what was asked for."""
    if name != expected:
        raise Unavailable(f"{_UNREADABLE}: it is about {what} {name!r}, not {expected!r}")


_STATUSES = {getattr(api.NodePool.Status, each): each for each in PoolStatus}
_EFFECTS = {
    api.NodeTaint.Effect.NO_SCHEDULE: "NoSchedule",
    api.NodeTaint.Effect.PREFER_NO_SCHEDULE: "PreferNoSchedule",
    api.NodeTaint.Effect.NO_EXECUTE: "NoExecute",
}
_STRATEGIES = {1: "TIME_SHARING", 2: "MPS"}  # ``GPUSharingConfig.GPUSharingStrategy``
CREATES = api.Operation.Type.CREATE_NODE_POOL
MADE = (CREATES, api.Operation.Type.DELETE_NODE_POOL)
"""The operations that are read: a create or a delete of a pool."""


def read_pool(pool: Any) -> NodePool:
    """Return one pool of an answer; one without a name is none of GKE's."""
    if not pool.name:
        raise Unavailable(f"{_UNREADABLE}: a node pool has no name")
    config, gpus = pool.config, list(pool.config.accelerators)
    affinity, words = config.reservation_affinity, [each.message for each in pool.conditions]
    # An autoscaled pool starts empty: what it may grow to is what was asked for.
    nodes = pool.autoscaling.max_node_count or pool.initial_node_count  # assumes: initial-count
    return NodePool(
        name=pool.name,
        status=_STATUSES.get(pool.status, PoolStatus.UNKNOWN),
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
        maximum=max(0, nodes),
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
        error=error[:_WORDS_MAX] if ended else "",
        began_at=parse_time(operation.start_time),
        ended_at=parse_time(operation.end_time) if ended else None,
    )


_LEAVING = ("DELETING", "ABANDONING")  # assumes: group-actions
_ABSENT = ("", "PENDING", "PENDING_STOP", "DEPROVISIONING", "STOPPING", "STOPPED", "TERMINATED")
"""The status of an instance is empty as long as there is no machine."""
_PAGES_MAX = 20
_GROUP_PATH = re.compile(r"projects/[^/]+/(?:zones|regions)/[^/]+/instanceGroupManagers/[^/]+$")
_ANSWER = msgspec.json.Decoder(dict[str, object])


class InstanceGroups(GoogleSession):
    """What Compute Engine knows of the machines of pools."""

    def read_machines(self, pool: NodePool) -> Machines:
        """Return how many machines there are and come, and what keeps the others away."""
        present, coming, errors = 0, 0, list[FillError]()
        try:
            for url in pool.group_urls:
                machines = self._read_group(url, max(pool.maximum, 1) - present)
                present, coming = present + machines.present, coming + machines.coming
                errors += machines.errors
        except (UnexpectedValue, *JSON_ERRORS) as error:
            raise Unavailable(f"{_UNREADABLE}: {error}") from error
        return Machines(present=present, coming=coming, errors=tuple(dict.fromkeys(errors)))

    def _read_group(self, url: str, most: int) -> Machines:
        """Return what one group says of its machines, of which there may be so many.

        A group that makes all machines of a slice or none lists them as being created while it has
        no capacity for them, and only its operation says so. The errors of the group are read if
        machines are absent and none comes; and, because GKE's autoscaler takes back what it asked
        for in vain, if the pool may have more than it has.
        """
        path = _GROUP_PATH.search(url)
        if path is None:
            raise Unavailable(f"GKE's answer names an instance group with an unknown path: {url}")
        group = path[0]
        rows = self._list_instances(group)
        absent = [each for each in rows if read.text(each, "instanceStatus") in _ABSENT]
        present = len(rows) - len(absent)
        failed = [list(_list_errors(row, "lastAttempt", "errors", "errors")) for row in absent]
        of_bulk, in_vain = ([], False) if present else self._read_bulk(group)
        coming = 0 if in_vain else failed.count([])
        errors = list(chain.from_iterable(failed))
        if not coming and (absent or present < most):
            errors += [*self._list_errors(group), *of_bulk]
        return Machines(present=present, coming=coming, errors=tuple(errors))

    def _read_bulk(self, group: str) -> tuple[list[FillError], bool]:
        """Return why the operation that makes all machines or none failed, and if it goes on."""
        answer = _ANSWER.decode(self.call("GET", f"compute/v1/{group}"))
        bulk = read.fields(answer, "status", "bulkInstanceOperation")  # assumes: bulk-operation
        check = read.fields(bulk, "lastProgressCheck")
        errors = list(_list_errors(check, "error", "errors", at=read.text(check, "timestamp")))
        goes_on = read.flag(bulk, "inProgress")
        return errors, goes_on and bool(errors)

    def _list_instances(self, group: str) -> list[Json]:
        """Return a group's instances that are not leaving. GKE's groups answer in pages of 500."""
        rows: list[Json] = []
        page = ""
        for _ in range(_PAGES_MAX):
            answer = _ANSWER.decode(
                self.call("POST", f"compute/v1/{group}/listManagedInstances{page}")
            )
            rows += read.objects(answer, "managedInstances")
            token = read.text(answer, "nextPageToken")
            if not token:
                return [each for each in rows if not _is_leaving(each)]
            page = f"?pageToken={quote(token, safe='')}"
        raise Unavailable(f"{_UNREADABLE}: {group} has more than {_PAGES_MAX} pages of instances")

    def _list_errors(self, group: str) -> Iterator[FillError]:
        answer = _ANSWER.decode(self.call("GET", f"compute/v1/{group}/listErrors"))
        for each in read.objects(answer, "items"):  # assumes: group-errors
            if error := read.fields(each, "error"):
                yield _make_error(error, read.text(each, "timestamp"))


def _is_leaving(row: Json) -> bool:
    if not read.text(row, "instance"):
        raise UnexpectedValue("managedInstances.instance", "", "a name")
    return read.text(row, "currentAction").startswith(_LEAVING)


def _list_errors(body: Json, *path: str, at: str = "") -> Iterator[FillError]:
    for error in read.objects(body, *path):
        yield _make_error(error, at)


def _make_error(error: Json, at: str) -> FillError:
    words = filter(None, (read.text(error, "code"), read.text(error, "message")))
    return FillError(": ".join(words)[:_GROUP_WORDS_MAX], parse_time(at))
