"""GKE, a cluster and Kueue behind the engine's ports: nothing takes time, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import structs

from shared.engine.threads import Crew, attempt
from shared.kinds.table import is_pod_of
from shared.model import errors
from shared.model.names import ObjectName
from shared.model.pools import Machines, NodePool, Operation, PoolNode, PoolStatus
from shared.model.workloads import (
    Check,
    CheckState,
    Disk,
    Namespace,
    Notice,
    PodView,
    QueuedWorkload,
    WorkloadView,
)
from tests.builders import JOBSET_UID, read_created
from tests.clocks import StepClock

T = TypeVar("T")


class FakeGke:
    def __init__(self) -> None:
        self.pools: dict[str, NodePool] = {}
        self.operations: list[Operation] = []
        self.machines: dict[str, Machines] = {}
        self.calls: list[str] = []
        self.names: list[str] = []
        """Those of all pools that were created, in this order."""
        self.hidden: set[str] = set()
        """Names of pools that no list shows yet."""
        self.before: list[Callable[[str], None]] = []
        """Are called with each call, before it is answered."""

    def list(self, cluster: str) -> list[NodePool]:
        self.note("list pools")
        return [pool for pool in self.pools.values() if pool.name not in self.hidden]

    def note(self, call: str) -> None:
        self.calls.append(call)
        for act in list(self.before):
            act(call)

    def get(self, cluster: str, name: str) -> NodePool | None:
        self.note(f"get {name}")
        return self.pools.get(name)

    def list_operations(self, cluster: str) -> Sequence[Operation]:
        self.note("list operations")
        return self.operations

    def read_machines(self, pool: NodePool) -> Machines:
        self.note(f"machines {pool.name}")
        return self.machines.get(pool.name, Machines())

    def find_channel(self, cluster: str) -> str:
        return "REGULAR"

    def create(self, cluster: str, node_pool: Mapping[str, Any]) -> None:
        name = node_pool["name"]
        self.note(f"create {name}")
        if name in self.pools:
            self._check_free(name)
            raise errors.AlreadyExists(name)
        self.pools[name] = read_created(node_pool)
        self.names += [name] * (name not in self.names)

    def raise_maximum(self, cluster: str, name: str, nodes: int, *, least: int = 0) -> None:
        self._bound("raise", name, nodes)

    def lower_maximum(self, cluster: str, name: str, nodes: int) -> None:
        self._bound("lower", name, nodes)

    def _bound(self, verb: str, name: str, nodes: int) -> None:
        self.note(f"{verb} {name} {nodes}")
        if name not in self.pools:
            raise errors.NotFound(name)
        self._check_free(name)
        self.pools[name] = structs.replace(self.pools[name], maximum=nodes, autoscaled=nodes > 0)

    def delete(self, cluster: str, name: str) -> None:
        self.note(f"delete {name}")
        if name in self.pools:
            self._check_free(name)
            self.pools[name] = structs.replace(self.pools[name], status=PoolStatus.STOPPING)

    def _check_free(self, name: str) -> None:
        """Refuse a change of a pool while GKE works on it."""
        if self.pools[name].status in (PoolStatus.PROVISIONING, PoolStatus.STOPPING):
            raise errors.Busy(name)


class FakeCluster:
    def __init__(self, gke: FakeGke) -> None:
        self.gke, self.calls = gke, gke.calls
        self.workloads: dict[tuple[str, str, str], WorkloadView] = {}
        self.pods: dict[str, PodView] = {}
        self.nodes: dict[str, PoolNode] = {}
        self.labels: dict[str, dict[str, str]] = {"tpu-provisioner": {}, "default": {}, "kube-system": {}}
        self.notices: list[Notice] = []

    def get_workload(self, kind: str, namespace: str, name: str) -> WorkloadView | None:
        self.gke.note(f"get {kind} {name}")
        return self.workloads.get((kind, namespace, name))

    def list_workloads(self, kind: str, names: Collection[tuple[str, str]]) -> Sequence[WorkloadView]:
        self.gke.note(f"list {kind}s")
        return [
            each for each in self.workloads.values() if each.kind == kind and (each.namespace, each.name) in names
        ]

    def explain_parent(self, parent: ObjectName) -> str:
        return ""

    def find_disk(self, namespace: str, claim: str) -> Disk | None:
        return None

    def get_namespace(self, name: str) -> Namespace | None:
        self.gke.note(f"get namespace {name}")
        return Namespace(uid=f"uid-of-{name}", labels=self.labels[name]) if name in self.labels else None

    def list_workload_pods(self, workload: WorkloadView) -> Sequence[PodView]:
        self.gke.note("list pods")
        return [pod for pod in self.pods.values() if is_pod_of(workload, pod)]

    def list_accelerator_pods(self) -> Iterable[PodView]:
        self.gke.note("list all pods")
        return [pod for pod in self.pods.values() if not pod.finished]

    def list_nodes(self, pools: Sequence[str] = ()) -> Sequence[PoolNode]:
        self.gke.note("list nodes")
        return [node for node in self.nodes.values() if not pools or node.pool in pools]

    def list_bound_pods(self, node: str) -> Sequence[PodView]:
        self.gke.note(f"list pods on {node}")
        return [pod for pod in self.pods.values() if pod.node_name == node and not pod.finished]

    def mark_idle(self, node: str, since: float | None, *, closed: bool = False) -> None:
        self.gke.note(f"mark {node}")
        self.nodes[node] = structs.replace(self.nodes[node], idle_since=since, closed=closed)

    def write_notice(self, notice: Notice) -> None:
        self.gke.note("write Event")
        self.notices.append(notice)


class OneThread(Crew):
    """Runs one task after the other."""

    def fork(self, task: Callable[[], T]) -> Callable[[], T]:
        answer = attempt(task)

        def give() -> T:
            if isinstance(answer, Exception):
                raise answer
            return answer

        return give

    def run(self, tasks: Sequence[Callable[[], T]], *, seconds: float) -> list[T | Exception]:
        return [attempt(task) for task in tasks]


CHECK = Check(name="capacity", active=True)


class FakeQueues:
    """Kueue of one cluster, with our check in its queue."""

    def __init__(self, cluster: FakeCluster, clock: StepClock) -> None:
        self.cluster, self.clock, self.check = cluster, clock, CHECK
        self.workloads: dict[str, QueuedWorkload] = {}
        self.marked: list[str] = []
        self.pauses: list[int | None] = []
        self.absent = False

    def queue(self, name: str = "train", kind: str = "JobSet", **fields: Any) -> None:
        state = CheckState(name="capacity", state="Pending")
        uid = JOBSET_UID if name == "train" else f"uid-of-{name}"
        self.workloads[name] = QueuedWorkload(
            **{
                "namespace": "default",
                "name": f"w-{name}",
                "uid": f"w-{name}",
                "version": "1",
                "owner": ObjectName(kind=kind, namespace="default", name=name, uid=uid),
                "checks": (state,),
                "reserved_at": self.clock.time,
                "holds_quota": True,
                **fields,
            }
        )

    def state(self, name: str = "train") -> CheckState:
        return self.workloads[name].checks[0]

    def list_checks(self) -> Sequence[Check]:
        if self.absent:
            raise errors.KindAbsent("the cluster does not know admissionchecks")
        return [self.check]

    def mark_active(self, check: Check) -> None:
        self.marked.append(check.name)

    def list_workloads(self) -> Sequence[QueuedWorkload]:
        return list(self.workloads.values())

    def list_owned(self, namespace: str, owner_uid: str) -> Sequence[QueuedWorkload]:
        return [each for each in self.workloads.values() if each.owner.uid == owner_uid]

    def view_owner(self, queued: QueuedWorkload) -> WorkloadView | None:
        self.cluster.gke.note(f"get flavors of {queued.owner.name}")
        return self.cluster.workloads[queued.owner.kind, queued.namespace, queued.owner.name]

    def write_state(self, queued: QueuedWorkload, state: CheckState, *, retry_seconds: int | None = None) -> None:
        losing = state.state in ("Retry", "Rejected")
        self.pauses.append(retry_seconds)
        self.workloads[queued.owner.name] = structs.replace(
            self.workloads[queued.owner.name], checks=(state,), holds_quota=queued.holds_quota and not losing
        )
