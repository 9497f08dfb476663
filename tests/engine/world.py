"""A small world behind the engine's ports: what is created is listed, and time is moved by hand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatch
from itertools import count
from math import inf
from typing import Any, TypeVar

from msgspec import structs

from shared.capacity_texts import CapacityPolicy
from shared.engine.budget import Books, Key, open_books
from shared.engine.outside import Ports, Role
from shared.engine.reconcile import Run, reconcile
from shared.engine.threads import Crew, attempt
from shared.engine.wakes import Tick, Work, tick, work_on, work_on_end
from shared.kinds import jobset as jobset_keys
from shared.kinds.table import is_pod_of
from shared.model import errors, labels
from shared.model.messages import EndedOperation
from shared.model.names import ObjectName
from shared.model.needs import Tier, Way
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
from tests.builders import CLUSTER, JOBSET_UID, NOW, a_jobset, a_pod, read_created, settings
from tests.clocks import StepClock

T = TypeVar("T")
ERRORS: dict[str, Exception] = {
    "quota": errors.NoCapacity("Insufficient regional quota to satisfy request"),
    "full": errors.Throttled("Operation was rejected: it hits the concurrent operations quota 1 (HTTP 429)"),
    "throttled": errors.Throttled("Too many requests"),
    "busy": errors.Busy("Cluster is running incompatible operation"),
    "invalid": errors.InvalidRequest("Invalid value for field X"),
    "unavailable": errors.Unavailable("no answer"),
    "denied": errors.Denied("no right"),
    "absent": errors.KindAbsent("the cluster does not know jobsets"),
}
ZONES = ("us-east5-b", "us-east5-a")
LIST = (CapacityPolicy(ways=tuple(Way(Tier.ON_DEMAND, zone) for zone in ZONES)),)


class FakeGke:
    def __init__(self) -> None:
        self.pools: dict[str, NodePool] = {}
        self.operations: list[Operation] = []
        self.machines: dict[str, Machines] = {}
        self.calls: list[str] = []
        self.refusals: list[Exception] = []
        self.delete_refusals: list[Exception] = []
        self.hidden: set[str] = set()
        """Names of pools that no list shows yet."""
        self.before: Callable[[str], None] = lambda _call: None
        """Is called with each call, before it is answered."""

    def list(self, cluster: str) -> list[NodePool]:
        self.note("list pools")
        return [pool for pool in self.pools.values() if pool.name not in self.hidden]

    def note(self, call: str) -> None:
        self.calls.append(call)
        self.before(call)

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
        if self.refusals:
            raise self.refusals.pop(0)
        if name in self.pools:
            raise errors.AlreadyExists(name)
        self.pools[name] = read_created(node_pool)

    def raise_maximum(self, cluster: str, name: str, nodes: int, *, least: int = 0) -> None:
        self.note(f"raise {name} {nodes}")
        self.pools[name] = structs.replace(self.pools[name], maximum=nodes)

    def lower_maximum(self, cluster: str, name: str, nodes: int) -> None:
        self.note(f"lower {name} {nodes}")
        self.pools[name] = structs.replace(self.pools[name], maximum=nodes)

    def delete(self, cluster: str, name: str) -> None:
        self.note(f"delete {name}")
        if self.delete_refusals:
            raise self.delete_refusals.pop(0)
        self.pools[name] = structs.replace(self.pools[name], status=PoolStatus.STOPPING)


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


class Function:
    """One function: its ports with its own verb only, and its memory."""

    def __init__(self, role: Role, gke: FakeGke, cluster: FakeCluster, clock: StepClock, **options: Any) -> None:
        self.role, chosen = role, settings(**options)
        self.queues: dict[str, Any] = {}
        self.ports = Ports(
            settings=chosen,
            pools=gke,
            adds=gke if role == Role.PROVISION else None,
            takes=gke if role == Role.COLLECT else None,
            clusters={CLUSTER: cluster},
            queues=self.queues,
            clock=clock,
            books=open_books(chosen),
            crew=OneThread(),
        )
        self.memory = self.ports.books[CLUSTER]

    def work(self, name: str = "train", *, uid: str = "") -> Work:
        return work_on(Key(CLUSTER, "JobSet", "default", name, uid), self.ports)

    def tick(self) -> Tick:
        return tick(CLUSTER, self.ports)

    def end(self, pool: str, *, created: bool = False, deleted: bool = False, problem: str = "") -> Work:
        ended = EndedOperation(cluster=CLUSTER, pool=pool, created=created, deleted=deleted, problem=problem)
        return work_on_end(ended, self.ports)


def raising(error: Exception) -> Callable[[], None]:
    """Return what ends in an error."""

    def give() -> None:
        raise error

    return give


class World:
    """JobSet ``default/train`` with slices of 4x4 v6e, and what happens to it."""

    def __init__(self, *, slices: int = 1, **options: Any) -> None:
        self.gke, self.clock, self._options = FakeGke(), StepClock(NOW), options
        self.cluster = FakeCluster(self.gke)
        self.restart()
        self.key = Key(CLUSTER, "JobSet", "default", "train")
        self.set_jobset(replicas=slices)

    def restart(self) -> None:
        """Let both functions begin anew, without memory."""
        made = [Function(role, self.gke, self.cluster, self.clock, **self._options) for role in Role]
        self.provisioner, self.collector = made

    @property
    def ports(self) -> Ports:
        return self.provisioner.ports

    @property
    def memory(self) -> Books:
        return self.provisioner.memory

    def set_jobset(self, **fields: Any) -> None:
        name = fields.setdefault("name", "train")
        uid = fields.setdefault("uid", JOBSET_UID if name == "train" else f"uid-of-{name}")
        self.cluster.workloads["JobSet", "default", name] = structs.replace(a_jobset(**fields), uid=uid)

    def stop(self, namespace: str, value: str) -> None:
        """A person labels a namespace."""
        self.cluster.labels[namespace] = {labels.MODE: value}

    def on(self, calls: str, act: Callable[[], object], *, nth: int = 1, times: float = 1) -> None:
        """Let something happen before calls that match are answered, from one of them on."""
        seen = count(1)

        def before(call: str) -> None:
            if fnmatch(call, calls) and nth <= next(seen) < nth + times:
                act()

        self.gke.before = before

    def fail(self, calls: str, error: Exception) -> None:
        """Let calls that match a pattern end in an error."""
        self.on(calls, raising(error), times=inf)

    def recover(self) -> None:
        """Let nothing happen before a call any more."""
        self.gke.before = lambda _call: None

    def pass_time(self, seconds: float) -> Callable[[], None]:
        """Return what lets so much time pass."""
        return lambda: self.clock.pause(seconds)

    def change(self, name: str, /, **fields: Any) -> None:
        """GKE lists a pool with other fields."""
        self.gke.pools[name] = structs.replace(self.gke.pools[name], **fields)

    def change_pod(self, name: str, /, **fields: Any) -> None:
        """The API has a pod with other fields."""
        self.cluster.pods[name] = structs.replace(self.cluster.pods[name], **fields)

    def add(self, *names: str, age: float = 35.0) -> None:
        """JobSets of one slice each wait."""
        for name in names:
            self.set_jobset(name=name, replicas=1)
            self.wait(0, jobset=name, age=age)

    def buy(self, *slices: int, age: float = 35.0) -> list[str]:
        """Let slices wait and get their pools; return all pools."""
        self.wait(*slices, age=age)
        self.provision()
        return list(self.gke.pools)

    def wait(self, *slices: int, jobset: str = "train", age: float = 35.0) -> None:
        for number in slices:
            for host in range(4):
                name = f"{jobset}-{number}-{host}"
                pod = a_pod(jobset=jobset, index=number, name=name, uid=f"pod-{name}")
                uid = self.cluster.workloads["JobSet", "default", jobset].uid
                own = {jobset_keys.JOBSET_UID_ON_POD: uid, "batch.kubernetes.io/job-completion-index": str(host)}
                template = structs.replace(pod.template, labels=pod.template.labels | own)
                created_at = self.clock.time - age
                self.cluster.pods[name] = structs.replace(pod, template=template, created_at=created_at)

    def come(self, pool: str, *, ready: int = 4) -> None:
        """GKE makes the nodes of a pool."""
        self.change(pool, status=PoolStatus.RUNNING)
        for host in range(ready):
            node = PoolNode(name=f"{pool}-{host}", pool=pool, ready=True, ready_at=self.clock.time)
            self.cluster.nodes[node.name] = node

    def run(self, number: int, pool: str, *, jobset: str = "train") -> None:
        """GKE makes the nodes of a pool, and a slice runs there."""
        self.come(pool)
        for host in range(4):
            self.change_pod(f"{jobset}-{number}-{host}", node_name=f"{pool}-{host}", unschedulable=False)

    def run_all(self, *, slices: int = 1) -> list[str]:
        """Let the slices of the JobSet get their pools and run there; return the pools."""
        names = self.buy(*range(slices))
        for number, name in enumerate(names):
            self.run(number, name)
        return names

    def finish(self, **fields: Any) -> None:
        """The JobSet completes, and its pods are gone."""
        self.set_jobset(**{"terminal": "Completed", **fields})
        self.cluster.pods.clear()

    def provision(self) -> Run:
        return reconcile(self.key, self.provisioner.ports)

    def collect(self) -> Run:
        return reconcile(self.key, self.collector.ports)

    def tick(self, role: str) -> Tick:
        return (self.provisioner if role == Role.PROVISION else self.collector).tick()

    def take_calls(self) -> list[str]:
        calls, self.gke.calls[:] = list(self.gke.calls), []
        return calls

    def list_deleted(self) -> list[str]:
        return [name for name, pool in self.gke.pools.items() if pool.status == PoolStatus.STOPPING]


def list_reasons(work: Work | Tick) -> list[str]:
    """Return the reasons that were told."""
    return [str(outcome.decision.reason) for outcome in work.outcomes]


# --- Kueue


CHECK = Check(name="capacity", active=True)


class FakeQueues:
    """Kueue of one cluster, with our check in its queue."""

    def __init__(self, world: World) -> None:
        self.world, self.check = world, CHECK
        self.workloads: dict[str, QueuedWorkload] = {}
        self.marked: list[str] = []
        self.pauses: list[int | None] = []
        self.flavor_error: Exception | None = None
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
                "reserved_at": self.world.clock.time,
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
        if self.flavor_error:
            raise self.flavor_error
        return self.world.cluster.workloads[queued.owner.kind, queued.namespace, queued.owner.name]

    def write_state(self, queued: QueuedWorkload, state: CheckState, *, retry_seconds: int | None = None) -> None:
        losing = state.state in ("Retry", "Rejected")
        self.pauses.append(retry_seconds)
        self.workloads[queued.owner.name] = structs.replace(
            self.workloads[queued.owner.name], checks=(state,), holds_quota=queued.holds_quota and not losing
        )


def gang(*names: str, slices: int = 2, **options: Any) -> tuple[World, FakeQueues]:
    """Suspended JobSets with quota."""
    world = World(**options)
    queues = FakeQueues(world)
    for function in (world.provisioner, world.collector):
        function.queues[CLUSTER] = queues
    for name in names or ("train",):
        marks = {labels.CAPACITY_CHECK_SECONDS: "600"}
        world.set_jobset(name=name, replicas=slices, suspended=True, suspended_since=world.clock.time, marks=marks)
        queues.queue(name)
    return world, queues
