"""Fakes of the ports: small worlds with state that conflict like real ones and fail once if told.

They say what was asked of them (`calls`), but no test has to script an answer: what is created can
be read. `tests/contract` holds them to the ports' contracts by the same tests as the edges.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shared.core.errors import AlreadyExists, Busy, NotFound, ProvisionerError, StaleView
from shared.core.identity.creations import Creation
from shared.core.identity.pools import PoolSnapshot, PoolStatus
from shared.core.kinds.elastic import is_leader
from shared.core.kinds.kind import Kind
from shared.core.kinds.table import (
    KINDS,
    find_kind_of_pod,
    get_kind,
    is_pod_of,
    select_members,
    select_pods,
    select_pods_of,
)
from shared.core.ports import BoundPod, Ledger, Namespace, Notice, SurplusMark
from shared.core.workloads import NodeView, Parent, PodView, WorkloadView
from shared.edges.workload_objects import MIRROR_POD
from tests.component.rare_reads import RareClusterReads, RarePoolReads

HELD = (PoolStatus.PROVISIONING, PoolStatus.RECONCILING, PoolStatus.STOPPING)
"""GKE refuses a second operation while one runs: https://cloud.google.com/kubernetes-engine/docs/troubleshooting/concurrent-operations."""
CLUSTER_UID = "uid-of-kube-system"
NAMESPACES = ("default", "kube-system", "tpu-provisioner")


class FakeNodePools(RarePoolReads):
    """The node pools of any number of clusters."""

    def __init__(self) -> None:
        super().__init__()
        self.pools: dict[tuple[str, str], PoolSnapshot] = {}
        self.bodies: list[Mapping[str, Any]] = []
        self.busy_clusters: set[str] = set()
        self.sizes: dict[str, int] = {}  # of pools that were resized
        self.down_clusters: dict[str, ProvisionerError] = {}
        self.creations: dict[tuple[str, str], Creation] = {}
        """The latest operation that creates a pool."""

    def add(self, cluster: str, *pools: PoolSnapshot) -> None:
        for pool in pools:
            self.pools[cluster, pool.name] = pool

    def fail(self, cluster: str, name: str, error: str, *, ended_at: float | None = None) -> None:
        self.move(cluster, name, "ERROR")
        self.pools[cluster, name] = dataclasses.replace(self.pools[cluster, name], error=error)
        self.creations[cluster, name] = Creation(pool=name, ended=True, error=error, ended_at=ended_at)

    def move(self, cluster: str, name: str, status: str) -> None:
        """Let time pass for one pool: it takes a status, or goes."""
        if status == "gone":
            del self.pools[cluster, name]
        else:
            self.pools[cluster, name] = dataclasses.replace(self.pools[cluster, name], status=PoolStatus(status))

    def names(self, cluster: str) -> list[str]:
        return [name for home, name in self.pools if home == cluster]

    def count(self, method: str) -> int:
        return sum(1 for called, _ in self.calls if called == method)

    def create(self, cluster: str, node_pool: Mapping[str, Any]) -> None:
        name = str(node_pool["name"])
        self._note("create", cluster, name)
        known = self._find_free(cluster, name)
        if known:
            raise AlreadyExists(f"Already exists: {cluster}/nodePools/{name}.")
        self.bodies.append(node_pool)
        self.creations[cluster, name] = Creation(pool=name, ended=False)
        self.pools[cluster, name] = PoolSnapshot(
            name=name,
            status=PoolStatus.PROVISIONING,
            labels=dict(node_pool["config"]["labels"]),
            node_count=node_pool["initialNodeCount"] or node_pool["autoscaling"]["maxNodeCount"],
            machine_type=node_pool["config"]["machineType"],
            spot=bool(node_pool["config"].get("spot")),
            flex_start=bool(node_pool["config"].get("flexStart")),
            autoscaled="autoscaling" in node_pool,
            reserved="SPECIFIC_RESERVATION" in str(node_pool["config"].get("reservationAffinity")),
            topology=node_pool.get("placementPolicy", {}).get("tpuTopology", ""),
            gpus_per_node=sum(
                int(each["acceleratorCount"]) for each in node_pool["config"].get("accelerators", ())
            ),
        )
        self.end("create")

    def get(self, cluster: str, name: str) -> PoolSnapshot | None:
        self._note("get", cluster, name)
        return self.pools.get((cluster, name))

    def list(self, cluster: str) -> list[PoolSnapshot]:
        self._note("list", cluster, "")
        return [pool for (home, _), pool in self.pools.items() if home == cluster]

    def list_creations(self, cluster: str) -> Sequence[Creation]:
        self._note("list_creations", cluster, "")
        for key, pool in self.pools.items():
            if key in self.creations and not self.creations[key].ended and pool.status != PoolStatus.PROVISIONING:
                self.creations[key] = Creation(pool=pool.name, ended=True, error=pool.error)
        return [made for (home, _), made in self.creations.items() if home == cluster]

    def delete(self, cluster: str, name: str) -> None:
        self._note("delete", cluster, name)
        if self._find_free(cluster, name):
            self.move(cluster, name, "STOPPING")
        self.end("delete")

    def measure(self, pool: PoolSnapshot) -> int:
        self._note("measure", "", pool.name)
        return self.sizes.get(pool.name, pool.node_count)

    def resize(self, cluster: str, name: str, nodes: int) -> None:
        self._note("resize", cluster, name)
        if (cluster, name) not in self.pools:
            raise NotFound(f"Not found: {cluster}/nodePools/{name}.")
        self._find_free(cluster, name)
        self.sizes[name] = nodes
        self.move(cluster, name, "RECONCILING")
        self.end("resize")

    def remove_nodes(self, pool: PoolSnapshot, names: Sequence[str]) -> None:
        self._note("remove_nodes", "", pool.name)
        self.removed += names
        self.sizes[pool.name] = self.measure(pool) - len(names)

    def _find_free(self, cluster: str, name: str) -> PoolSnapshot | None:
        """Return the pool, if there is one. While an operation runs on it, refuse as GKE does."""
        known = self.pools.get((cluster, name))
        if cluster in self.busy_clusters or (known and known.status in HELD):
            raise Busy("Cluster is running incompatible operation operation-1.")
        return known

    def _note(self, method: str, cluster: str, name: str) -> None:
        self.calls.append((method, name))
        if cluster in self.down_clusters:
            raise self.down_clusters[cluster]
        self.begin(method)


class FakeCluster(RareClusterReads):
    """The live objects of one cluster."""

    def __init__(self) -> None:
        super().__init__()
        self.pods: dict[tuple[str, str], PodView] = {}
        self.workloads: dict[tuple[str, str, str], WorkloadView] = {}
        self.parents: dict[str, Parent] = {}
        """By UID."""
        self.cluster_uid = CLUSTER_UID  # of the namespace kube-system
        self.namespace_labels: dict[str, dict[str, str]] = {name: {} for name in NAMESPACES}
        self.ledgers: dict[str, Ledger] = {}
        """By namespace."""
        self.bound: dict[str, list[BoundPod]] = {}
        """By pool: pods of which no test asks more than that they run there."""
        self.deleted_at: dict[tuple[str, str], float] = {}
        """Of `pods` that are being deleted."""
        self.nodes: dict[str, list[str]] = {}
        self.unready: set[str] = set()  # names of nodes
        self.node_views: dict[str, NodeView] = {}
        """Nodes of which a test asks more than that they are Ready."""
        self.marks: dict[str, SurplusMark] = {}
        self.notices: dict[Notice, int] = {}

    def add(self, *objects: PodView | WorkloadView) -> None:
        for found in objects:
            if isinstance(found, PodView):
                self.pods[found.namespace, found.name] = found
            else:
                self.workloads[found.kind, found.namespace, found.name] = found

    def empty(self) -> None:
        """Let the cluster have no pods and no workloads."""
        self.pods.clear()
        self.workloads.clear()

    def bind(self, pool: str, *, kind: str = "JobSet", workload: str = "train", **overrides: Any) -> None:
        """Let one more unfinished pod, of four chips, run on a pool's nodes."""
        pods = self.bound.setdefault(pool, [])
        name = f"{workload or 'bare'}-{len(pods)}"
        plain = {"namespace": "default", "name": name, "uid": f"uid-of-{name}", "chips": 4, "deleting_since": None}
        pods.append(BoundPod(kind=kind if workload else "", workload=workload, **{**plain, **overrides}))

    def get_pod(self, namespace: str, name: str) -> PodView | None:
        self.begin("get_pod")
        return self.pods.get((namespace, name))

    def get_workload(self, kind: str, namespace: str, name: str) -> WorkloadView | None:
        self.begin("get_workload")
        return self.workloads.get((kind, namespace, name))

    def get_parent(self, parent: Parent) -> Parent | None:
        self.begin("get_parent")
        return self.parents.get(parent.uid)

    def get_namespace(self, name: str) -> Namespace | None:
        self.begin("get_namespace")
        if name not in self.namespace_labels:
            return None
        uid = self.cluster_uid if name == "kube-system" else f"uid-of-{name}"
        return Namespace(uid=uid, labels=self.namespace_labels[name])

    def read_ledger(self, namespace: str) -> Ledger:
        self.begin("read_ledger")
        return self.ledgers.get(namespace, Ledger(version="", entries={}))

    def write_ledger(self, namespace: str, ledger: Ledger) -> Ledger:
        self.begin("write_ledger")
        known = self.ledgers.get(namespace, Ledger(version="", entries={}))
        if ledger.version != known.version:
            raise StaleView("the ledger has changed")
        version = str(int(known.version or 0) + 1)
        self.ledgers[namespace] = Ledger(version=version, entries=dict(ledger.entries))
        self.end("write_ledger")
        return self.ledgers[namespace]

    def list_waiting_leaders(self, workload: WorkloadView | None = None) -> Iterator[PodView]:
        self.begin("list_waiting_leaders")
        for kind in KINDS:
            for pod in self._find_unbound(kind, select_pods(kind)):
                home, wanted = (kind.name, pod.namespace, kind.find_owner(pod)), pod.template.wants_accelerator
                of = (workload.kind, workload.namespace, workload.name) if workload else home
                if wanted and home == of and is_leader(kind, pod):
                    yield pod

    def list_waiting_followers(self) -> Iterator[PodView]:
        self.begin("list_waiting_followers")
        for kind in KINDS:
            for pod in self._find_unbound(kind, select_members(kind)):
                if pod.template.wants_accelerator and not is_leader(kind, pod):
                    yield pod

    def _find_unbound(self, kind: Kind, selector: str) -> list[PodView]:
        pods = [pod for pod in self.pods.values() if not pod.node_name and find_kind_of_pod(pod) is kind]
        return [pod for pod in pods if is_selected(selector, pod)]

    def list_waiting_pods(self, kind: str, namespace: str) -> list[PodView]:
        self.begin("list_waiting_pods")
        found = get_kind(kind)
        pods = self._find_unbound(found, select_members(found) or select_pods(found))
        return [pod for pod in pods if pod.namespace == namespace]

    def list_workload_pods(self, workload: WorkloadView) -> list[PodView]:
        self.begin("list_workload_pods")
        selector = select_pods_of(workload)
        pods = [pod for pod in self.pods.values() if pod.namespace == workload.namespace]
        return [pod for pod in pods if is_selected(selector, pod) and is_pod_of(workload, pod)]

    def find_pools_of_nodes(self, pool_names: Sequence[str], *, some: bool = False) -> dict[str, str]:
        del some  # all of them are some of them
        self.begin("find_pools_of_nodes")
        return {node: pool for pool in pool_names for node in self.nodes.get(pool, ())}

    def list_pool_nodes(self, pool_name: str) -> list[NodeView]:
        self.begin("list_pool_nodes")
        plain = {
            name: NodeView(name=name, ready=name not in self.unready) for name in self.nodes.get(pool_name, ())
        }
        return [self.node_views.get(name, node) for name, node in plain.items()]

    def list_surplus_marks(self, pool_name: str) -> dict[str, SurplusMark | None]:
        self.begin("list_surplus_marks")
        return {name: self.marks.get(name) for name in self.nodes.get(pool_name, [])}

    def mark_surplus(self, node: str, since: float | None, *, closed: bool = False) -> None:
        self.begin("mark_surplus")
        self.marks.pop(node, None)
        if since is not None and any(node in names for names in self.nodes.values()):
            self.marks[node] = SurplusMark(since, closed)

    def list_pool_pods(self, pool_name: str) -> list[BoundPod]:
        self.begin("list_pool_pods")
        nodes = self.nodes.get(pool_name, [])
        here = [pod for pod in self.pods.values() if pod.node_name in nodes and holds_node(pod)]
        return [*self.bound.get(pool_name, ()), *map(self._view_bound, here)]

    def _view_bound(self, pod: PodView) -> BoundPod:
        kind = find_kind_of_pod(pod)
        return BoundPod(
            namespace=pod.namespace,
            name=pod.name,
            kind=kind.name if kind else "",
            workload=kind.find_owner(pod) if kind else "",
            chips=pod.template.units,
            deleting_since=self.deleted_at.get((pod.namespace, pod.name)),
            node=pod.node_name,
            uid=pod.uid,
            created_at=pod.created_at,
        )

    def write_notice(self, notice: Notice) -> None:
        self.begin("write_notice")
        self.notices[notice] = self.notices.get(notice, 0) + 1


def holds_node(pod: PodView) -> bool:
    """Return whether a pod loses something with its node: no DaemonSet's or static pod does."""
    of_node = pod.controller_kind == "DaemonSet" or MIRROR_POD in pod.template.annotations
    return not of_node and not pod.finished


def is_selected(selector: str, pod: PodView) -> bool:
    """Return whether a selector of ``key``, ``!key``, ``key=value`` takes a pod; empty does not."""
    for term in selector.split(","):
        key, equals, value = term.removeprefix("!").partition("=")
        answer = pod.template.labels.get(key)
        if (answer == value if equals else answer is not None) == term.startswith("!"):
            return False
    return True


class StepClock:
    """A clock that moves only when told to."""

    def __init__(self, now: float) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds

    def pause(self, seconds: float) -> None:
        self.advance(seconds)
