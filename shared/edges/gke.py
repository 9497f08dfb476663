"""GKE's node pools and their machines, in the words of `shared.engine.outside`.

Each function gets a class with its own verb only. The machines of a pool are those of Compute
Engine's instance groups: a pool of ours has one zone and one group, and one that was changed by
hand may have more.
https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.nodePools
https://cloud.google.com/compute/docs/reference/rest/v1/instanceGroupManagers
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

from shared.edges.connection import Connection, GkeConnection, TokenFile
from shared.edges.google import GoogleAccount, GoogleSession
from shared.edges.kubernetes import AGENT, KubernetesApi, read_values
from shared.edges.process import SYSTEM_CLOCK
from shared.kinds import read
from shared.kinds.read import Json, UnexpectedValue
from shared.model import labels
from shared.model.errors import ClusterNotFound, InvalidRequest, NotFound, Unavailable
from shared.model.pools import FillError, Machines, NodePool, Operation, PoolStatus
from shared.model.times import Clock, parse_count, parse_time
from shared.model.workloads import Taint
from shared.settings import GKE_ENDPOINT, ClusterSettings

COMPUTE_ENDPOINT = "https://compute.googleapis.com"
CLUSTER_SECONDS = 50  # how long GKE's description of a cluster is not read again: each tick does
_WORDS_MAX, _GROUP_WORDS_MAX = 600, 400
_UNREADABLE = "GKE's answer cannot be read"


@contextmanager
def _reading() -> Iterator[None]:
    """Raise `Unavailable` for a field of an answer that is of another type."""
    try:
        yield
    except UnexpectedValue as error:
        raise Unavailable(f"{_UNREADABLE}: {error}") from error


class GkePools(GoogleSession):
    """What both functions read of GKE, and of Compute Engine for its machines."""

    def __init__(
        self, endpoint: str, account: GoogleAccount, *, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """Prepare; nothing is sent or opened yet. A stand-in has both APIs at one endpoint."""
        super().__init__(endpoint, account, clock=clock)
        compute = COMPUTE_ENDPOINT if self._endpoint == GKE_ENDPOINT else self._endpoint
        self._compute = InstanceGroups(compute, account, clock=clock)
        self.read_machines = self._compute.read_machines
        self._clusters_lock = threading.Lock()
        self._clusters: dict[str, tuple[Json, float]] = {}
        """By name: GKE's description of a cluster, and when that was read, in unix seconds."""

    def open(self) -> None:
        """Open the sessions and get the access token now, so that the first call need not wait."""
        self._account.give_token()
        _ = self.session, self._compute.session

    @_reading()
    def list(self, cluster: str) -> Sequence[NodePool]:
        """Return every pool of a cluster."""
        answer = self.call("GET", f"v1/{cluster}/nodePools")  # assumes: list-after-create
        return [read_pool(each) for each in read.objects(answer, "nodePools")]

    @_reading()
    def get(self, cluster: str, name: str) -> NodePool | None:
        """Return one pool, or None if GKE says that it has none of that name."""
        try:
            answer = self.call("GET", f"v1/{cluster}/nodePools/{_check_name(name)}")
        except NotFound as error:  # assumes: read-after-create
            _expect_named(name, error)
            return None
        pool = read_pool(answer)
        _expect_about("node pool", pool.name, name)
        return pool

    @_reading()
    def list_operations(self, cluster: str) -> Sequence[Operation]:
        """Return the creates and deletes of a cluster's pools, from its location's operations."""
        location, _, name = cluster.rpartition("/clusters/")
        answer = self.call("GET", f"v1/{location}/operations")
        # A target names the project by its number, and a zone by ``zones``.
        place = location.rpartition("/")[2]
        path = f"/{place}/clusters/{name}/nodePools/"  # assumes: operation-fields
        targets = (
            (each, read.text(each, "targetLink").rpartition(path))
            for each in read.objects(answer, "operations")
            if read.text(each, "operationType") in _MADE
        )
        return [read_operation(each, pool) for each, (_, of_cluster, pool) in targets if of_cluster]

    @_reading()
    def find_channel(self, cluster: str) -> str:
        """Return the release channel of a cluster, or empty, read `CLUSTER_SECONDS` ago at most."""
        described = self._describe(cluster)
        return read.text(described, "releaseChannel", "channel")  # assumes: channel-told

    @_reading()
    def locate(self, cluster: str, *, private: bool = False) -> tuple[str, str]:
        """Return the URL of a cluster's Kubernetes API, and its authority in base64.

        The DNS endpoint has none, because a public one signs it.
        """
        described = self._describe(cluster)
        ways = read.fields(described, "controlPlaneEndpointsConfig")
        way, host, authority = "DNS endpoint", read.text(ways, "dnsEndpointConfig", "endpoint"), ""
        if private:  # assumes: dns-endpoint
            way, host = "private address", read.text(ways, "ipEndpointsConfig", "privateEndpoint")
            authority = read.text(described, "masterAuth", "clusterCaCertificate")
        if not host:
            raise Unavailable(f"cluster {cluster} has no {way} for its Kubernetes API")
        return f"https://{host}", authority

    def _describe(self, cluster: str) -> Json:
        """Return what GKE says of a cluster. Who asks while it is read waits; no error is kept."""
        with self._clusters_lock:
            described, read_at = self._clusters.get(cluster, ({}, -math.inf))
            now = self._clock.now()
            if 0 <= now - read_at <= CLUSTER_SECONDS:
                return described
            try:
                described = self.call("GET", f"v1/{cluster}")
            except NotFound as error:  # which would be taken for the absence of an object in it
                raise ClusterNotFound(str(error)) from error
            _expect_about("cluster", read.text(described, "name"), cluster.rpartition("/")[2])
            self._clusters[cluster] = described, now
            return described

    def _bound(self, cluster: str, name: str, *, least: int, most: int) -> None:
        """Give GKE's autoscaler new bounds for a pool; a maximum of 0 turns it off."""
        scaling = {"enabled": most > 0, "minNodeCount": least, "maxNodeCount": most}
        self.call(  # assumes: set-autoscaling
            "POST",
            f"v1/{cluster}/nodePools/{_check_name(name)}:setAutoscaling",
            {"autoscaling": scaling},
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
        """Submit one pool."""
        self.call("POST", f"v1/{cluster}/nodePools", {"nodePool": node_pool})  # assumes: fields

    def raise_maximum(self, cluster: str, name: str, nodes: int, *, least: int = 0) -> None:
        """Let GKE's autoscaler give a pool so many nodes, and never fewer than `least`."""
        self._bound(cluster, name, least=least, most=nodes)


class GkeTakes(GkePools):
    """What `collect` may do."""

    def delete(self, cluster: str, name: str) -> None:
        """Submit a deletion; an absent pool is success."""
        try:
            self.call("DELETE", f"v1/{cluster}/nodePools/{_check_name(name)}")
        except NotFound as error:  # assumes: missing-pool
            _expect_named(name, error)

    def lower_maximum(self, cluster: str, name: str, nodes: int) -> None:
        """Bound a pool to fewer nodes; 0 turns its autoscaling off."""
        self._bound(cluster, name, least=0, most=nodes)


def _check_name(name: str) -> str:
    """Return the name of a pool; with another text a path would lead to another object."""
    if not _POOL_NAME.fullmatch(name):
        raise InvalidRequest(f"not the name of a node pool: {name!r}")
    return name


def _expect_named(name: str, error: NotFound) -> None:
    """Pass over a 404 that names the pool; any other one proves nothing about it."""
    if name not in str(error):
        raise Unavailable(f"cannot tell whether node pool {name} exists: {error}") from error


def _expect_about(what: str, name: str, expected: str) -> None:
    """Pass over an answer about what was asked for."""
    if name != expected:
        raise Unavailable(f"{_UNREADABLE}: it is about {what} {name!r}, not {expected!r}")


_EFFECTS = {
    "NO_SCHEDULE": "NoSchedule",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
    "NO_EXECUTE": "NoExecute",
}
_CREATES = "CREATE_NODE_POOL"
_MADE = (_CREATES, "DELETE_NODE_POOL")
"""The operations that are read: a create or a delete of a pool."""


def read_pool(pool: Json) -> NodePool:
    """Return one pool of an answer; one without a name is none of GKE's."""
    name, config = read.text(pool, "name"), read.fields(pool, "config")
    if not name:
        raise Unavailable(f"{_UNREADABLE}: a node pool has no name")
    gpus, scaling = read.objects(config, "accelerators"), read.fields(pool, "autoscaling")
    gpu = gpus[0] if gpus else {}
    # An autoscaled pool starts empty: what it may grow to is what was asked for.
    nodes = read.number(scaling, "maxNodeCount") or read.number(pool, "initialNodeCount")
    words = [read.text(each, "message") for each in read.objects(pool, "conditions")]
    status = read.text(pool, "status")
    return NodePool(
        name=name,
        status=next((each for each in PoolStatus if each == status), PoolStatus.UNKNOWN),
        labels=read.texts(config, "labels"),
        taints=tuple(_read_taint(each) for each in read.objects(config, "taints")),
        machine_type=read.text(config, "machineType"),
        accelerator=read.text(gpu, "acceleratorType"),
        gpus_per_node=sum(_count(each, "acceleratorCount") for each in gpus),
        sharing=_read_sharing(gpu),
        topology=read.text(pool, "placementPolicy", "tpuTopology"),
        policy=read.text(pool, "placementPolicy", "policyName").rpartition("/")[2],
        node_count=max(0, nodes),  # assumes: initial-count
        zones=read_values(pool, "locations"),
        spot=read.flag(config, "spot"),
        flex_start=read.flag(config, "flexStart"),
        reservation="".join(read_values(read.fields(config, "reservationAffinity"))[:1]),
        autoscaled=read.flag(scaling, "enabled"),
        group_urls=read_values(pool, "instanceGroupUrls"),  # assumes: group-urls
        error="; ".join(filter(None, words)) or read.text(pool, "statusMessage"),
        deployment=read.texts(config, "resourceLabels").get(labels.DEPLOYMENT, ""),
    )


def _count(body: Json, field: str) -> int:
    """Return a number that is a text in JSON, because it may have 64 bits."""
    return parse_count(read.text(body, field)) or 0


def _read_taint(taint: Json) -> Taint:
    effect = _EFFECTS.get(read.text(taint, "effect"), "")
    return Taint(read.text(taint, "key"), read.text(taint, "value"), effect)


def _read_sharing(gpu: Json) -> str:
    """Return how pods share a GPU, as `PoolShape.sharing` says it; empty for whole GPUs."""
    part, shared = read.text(gpu, "gpuPartitionSize"), read.fields(gpu, "gpuSharingConfig")
    strategy = read.text(shared, "gpuSharingStrategy")
    if not part and not strategy:
        return ""
    return f"{part}/{strategy}/{_count(shared, 'maxSharedClientsPerGpu')}"


def read_operation(operation: Json, pool: str) -> Operation:
    """Return an operation. The status text, if there is one, says more than the error."""
    ended = read.text(operation, "status") == "DONE"
    number = read.number(operation, "error", "code")
    words = (  # assumes: operation-error
        read.text(operation, "statusMessage"),
        read.text(operation, "error", "message"),
        f"error {number}" if number else "",
    )
    return Operation(
        pool=pool,
        creates=read.text(operation, "operationType") == _CREATES,
        ended=ended,
        error=next(filter(None, words), "")[:_WORDS_MAX] if ended else "",
        began_at=parse_time(read.text(operation, "startTime")),
        ended_at=parse_time(read.text(operation, "endTime")) if ended else None,
    )


_LEAVING = ("DELETING", "ABANDONING")  # assumes: group-actions
_ABSENT = ("", "PENDING", "PENDING_STOP", "DEPROVISIONING", "STOPPING", "STOPPED", "TERMINATED")
"""The status of an instance is empty as long as there is no machine."""
_PAGES_MAX = 20
_GROUP_PATH = re.compile(r"projects/[^/]+/(?:zones|regions)/[^/]+/instanceGroupManagers/[^/]+$")
_POOL_NAME = re.compile(r"[A-Za-z0-9_-]+")


class InstanceGroups(GoogleSession):
    """What Compute Engine knows of the machines of pools."""

    @_reading()
    def read_machines(self, pool: NodePool) -> Machines:
        """Return how many machines there are and come, and what keeps the others away."""
        present, coming, errors = 0, 0, list[FillError]()
        for url in pool.group_urls:
            machines = self._read_group(url, max(pool.node_count, 1) - present)
            present, coming = present + machines.present, coming + machines.coming
            errors += machines.errors
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
        answer = self.call("GET", f"compute/v1/{group}")
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
            answer = self.call("POST", f"compute/v1/{group}/listManagedInstances{page}")
            rows += read.objects(answer, "managedInstances")
            token = read.text(answer, "nextPageToken")
            if not token:  # assumes: group-pages
                return [each for each in rows if not _is_leaving(each)]
            page = f"?pageToken={quote(token, safe='')}"
        raise Unavailable(f"{_UNREADABLE}: {group} has more than {_PAGES_MAX} pages of instances")

    def _list_errors(self, group: str) -> Iterator[FillError]:
        answer = self.call("GET", f"compute/v1/{group}/listErrors")
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
