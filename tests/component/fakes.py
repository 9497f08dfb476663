"""Fakes of the ports: small worlds that keep state, conflict like the real ones, and fail once when told to.

They say what was asked of them (`calls`), but no test has to script an answer: what is created can be read.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from shared.core.elastic import speaks
from shared.core.errors import AlreadyExists, Busy, ProvisionerError, Unavailable
from shared.core.kinds.table import find_kind_of_pod, get_kind
from shared.core.pools import PoolSnapshot, PoolStatus
from shared.core.ports import BoundPod, Notice, SurplusMark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from shared.core.events import Message
    from shared.core.workloads import Parent, PodView, WorkloadView

HELD = (PoolStatus.PROVISIONING, PoolStatus.RECONCILING, PoolStatus.STOPPING)
"""GKE refuses a second operation while one runs: https://cloud.google.com/kubernetes-engine/docs/troubleshooting/concurrent-operations."""


class Plans:
    """What shall happen at the next calls of a method: an error before or after its effect, or any action."""

    def __init__(self) -> None:
        self._before: defaultdict[str, deque[Callable[[], None]]] = defaultdict(deque)
        self._after: defaultdict[str, deque[Callable[[], None]]] = defaultdict(deque)

    def fail_next(self, method: str, error: ProvisionerError, *, performed: bool = False) -> None:
        """Let the next call fail; `performed` loses only the reply."""

        def fail() -> None:
            raise error

        (self._after if performed else self._before)[method].append(fail)

    def before_next(self, method: str, action: Callable[[], None], *, skip: int = 0) -> None:
        """Change the world just before a call, the next one or one after `skip` others."""
        plans = self._before[method]
        plans.extend([lambda: None] * (skip - len(plans)))
        plans.append(action)

    def begin(self, method: str) -> None:
        if self._before[method]:
            self._before[method].popleft()()

    def end(self, method: str) -> None:
        if self._after[method]:
            self._after[method].popleft()()


class FakeNodePools(Plans):
    """The node pools of any number of clusters."""

    def __init__(self) -> None:
        super().__init__()
        self.pools: dict[tuple[str, str], PoolSnapshot] = {}
        self.bodies: list[Mapping[str, Any]] = []
        self.calls: list[tuple[str, str]] = []
        self.busy_clusters: set[str] = set()
        self.sizes: dict[str, int] = {}
        """Of pools that are no longer as large as at their creation."""
        self.removed: list[str] = []
        self.down_clusters: dict[str, ProvisionerError] = {}

    def add(self, cluster: str, *pools: PoolSnapshot) -> None:
        for pool in pools:
            self.pools[cluster, pool.name] = pool

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
        known = self.pools.get((cluster, name))
        if cluster in self.busy_clusters or (known and known.status in HELD):
            raise Busy("Cluster is running incompatible operation operation-1.")
        if known:
            raise AlreadyExists(f"Already exists: {cluster}/nodePools/{name}.")
        self.bodies.append(node_pool)
        self.pools[cluster, name] = PoolSnapshot(
            name=name,
            status=PoolStatus.PROVISIONING,
            labels=dict(node_pool["config"]["labels"]),
            node_count=node_pool["initialNodeCount"] or node_pool["autoscaling"]["maxNodeCount"],
            machine_type=node_pool["config"]["machineType"],
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

    def delete(self, cluster: str, name: str) -> None:
        self._note("delete", cluster, name)
        known = self.pools.get((cluster, name))
        if cluster in self.busy_clusters or (known and known.status in HELD):
            raise Busy("Cluster is running incompatible operation operation-1.")
        if known:
            self.move(cluster, name, "STOPPING")
        self.end("delete")

    def measure(self, pool: PoolSnapshot) -> int:
        self._note("measure", "", pool.name)
        return self.sizes.get(pool.name, pool.node_count)

    def resize(self, cluster: str, name: str, nodes: int) -> None:
        self._note("resize", cluster, name)
        if cluster in self.busy_clusters or self.pools[cluster, name].status in HELD:
            raise Busy("Cluster is running incompatible operation operation-1.")
        self.sizes[name] = nodes
        self.end("resize")

    def remove_nodes(self, pool: PoolSnapshot, names: Sequence[str]) -> None:
        self._note("remove_nodes", "", pool.name)
        self.removed += names
        self.sizes[pool.name] = self.measure(pool) - len(names)

    def _note(self, method: str, cluster: str, name: str) -> None:
        self.calls.append((method, name))
        if cluster in self.down_clusters:
            raise self.down_clusters[cluster]
        self.begin(method)


class FakeCluster(Plans):
    """The live objects of one cluster."""

    def __init__(self) -> None:
        super().__init__()
        self.pods: dict[tuple[str, str], PodView] = {}
        self.workloads: dict[tuple[str, str, str], WorkloadView] = {}
        self.parents: dict[str, Parent] = {}
        """By UID."""
        self.namespace_labels: dict[str, dict[str, str]] = {}
        self.bound: dict[str, list[BoundPod]] = {}
        self.nodes: dict[str, list[str]] = {}
        self.marks: dict[str, SurplusMark] = {}
        self.notices: dict[Notice, int] = {}

    def add(self, *objects: PodView | WorkloadView) -> None:
        for found in objects:
            if hasattr(found, "phase"):
                self.pods[found.namespace, found.name] = found
            else:
                self.workloads[found.kind, found.namespace, found.name] = found

    def bind(
        self,
        pool: str,
        *,
        kind: str = "JobSet",
        workload: str = "train",
        chips: int = 4,
        deleting_since: float | None = None,
        node: str = "",
    ) -> None:
        """Let one more unfinished pod run on a pool's nodes."""
        pods = self.bound.setdefault(pool, [])
        pods.append(
            BoundPod(
                namespace="default",
                name=f"{workload or 'bare'}-{len(pods)}",
                kind=kind if workload else "",
                workload=workload,
                chips=chips,
                deleting_since=deleting_since,
                node=node,
            )
        )

    def get_pod(self, namespace: str, name: str) -> PodView | None:
        self.begin("get_pod")
        return self.pods.get((namespace, name))

    def get_workload(self, kind: str, namespace: str, name: str) -> WorkloadView | None:
        self.begin("get_workload")
        return self.workloads.get((kind, namespace, name))

    def get_parent(self, parent: Parent, kind: str) -> Parent | None:
        self.begin("get_parent")
        return self.parents.get(parent.uid)

    def get_namespace_labels(self, namespace: str) -> dict[str, str]:
        self.begin("get_namespace_labels")
        return self.namespace_labels.get(namespace, {})

    def list_waiting_leaders(self) -> Iterator[PodView]:
        self.begin("list_waiting_leaders")
        for pod in list(self.pods.values()):
            kind = find_kind_of_pod(pod)
            if kind and speaks(kind, pod) and not pod.node_name:
                yield pod

    def list_waiting_followers(self) -> Iterator[PodView]:
        self.begin("list_waiting_followers")
        for pod in list(self.pods.values()):
            kind = find_kind_of_pod(pod)
            if kind and kind.member_selector and not speaks(kind, pod) and not pod.node_name:
                yield pod

    def list_workload_pods(self, workload: WorkloadView) -> list[PodView]:
        self.begin("list_workload_pods")
        kind = get_kind(workload.kind)
        home = (workload.namespace, workload.name)
        return [pod for pod in self.pods.values() if (pod.namespace, kind.find_owner(pod)) == home]

    def list_pool_nodes(self, pool_name: str) -> list[str]:
        self.begin("list_pool_nodes")
        return self.nodes.get(pool_name, [])

    def list_surplus_marks(self, pool_name: str) -> dict[str, SurplusMark | None]:
        self.begin("list_surplus_marks")
        return {name: self.marks.get(name) for name in self.nodes.get(pool_name, [])}

    def mark_surplus(self, node: str, since: float | None, *, closed: bool = False) -> None:
        self.begin("mark_surplus")
        self.marks.pop(node, None)
        if since is not None:
            self.marks[node] = SurplusMark(since, closed)

    def list_pool_pods(self, pool_name: str) -> list[BoundPod]:
        self.begin("list_pool_pods")
        return list(self.bound.get(pool_name, ()))

    def write_notice(self, notice: Notice) -> None:
        self.begin("write_notice")
        self.notices[notice] = self.notices.get(notice, 0) + 1


class FakeDeadLetters:
    """Keeps messages in a list, unless it is down."""

    def __init__(self) -> None:
        self.kept: list[Message] = []
        self.down = False

    def keep(self, message: Message) -> None:
        if self.down:
            raise Unavailable("the message could not be kept: topic unreachable")
        self.kept.append(message)


class StepClock:
    """A clock that moves only when told to."""

    def __init__(self, now: float) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds
