"""A small world behind the engine's ports: what is created is listed, and time is moved by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from itertools import count
from math import inf
from typing import Any

from msgspec import structs

from shared.capacity_texts import CapacityPolicy
from shared.engine.budget import Books, Key, open_books
from shared.engine.outside import Ports, Role
from shared.engine.reconcile import Run, reconcile
from shared.engine.wakes import Tick, Work, tick, work_on, work_on_end
from shared.kinds import jobset as jobset_keys
from shared.model import errors, labels
from shared.model.decisions import Reason
from shared.model.messages import EndedOperation
from shared.model.needs import Tier, Way
from shared.model.pools import Operation, PoolNode, PoolStatus
from shared.model.workloads import SliceGroup, WorkloadView
from tests.builders import CLUSTER, IN_ONE_POOL, JOBSET_UID, NOW, a_go_pool, a_jobset, a_pod, a_template, settings
from tests.clocks import StepClock
from tests.engine.fake_ports import FakeCluster, FakeGke, FakeQueues, OneThread

ERRORS: dict[str, Exception] = {
    "quota": errors.NoCapacity("Insufficient regional quota to satisfy request"),
    "full": errors.Throttled("Operation was rejected: it hits the concurrent operations quota 1 (HTTP 429)"),
    "throttled": errors.Throttled("Too many requests"),
    "busy": errors.Busy("Cluster is running incompatible operation"),
    "invalid": errors.InvalidRequest("Invalid value for field X"),
    "unavailable": errors.Unavailable("no answer"),
    "denied": errors.Denied("no right"),
    "left": errors.Rejected(Reason.DEMAND_LEFT_TO_GKE, "a topology"),
    "absent": errors.KindAbsent("the cluster does not know jobsets"),
}
ZONES = ("us-east5-b", "us-east5-a")
TEMPLATES = {"exclusive": a_template(topology_terms=IN_ONE_POOL), "of-3-chips": a_template(chips=3)}
LIST = (CapacityPolicy(ways=tuple(Way(Tier.ON_DEMAND, zone) for zone in ZONES)),)


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


class World:
    """JobSet ``default/train`` with slices of 4x4 v6e, and what happens to it.

    A pool goes by its name or by the number of its create. Its methods are the verbs of stories.
    """

    def __init__(
        self,
        *,
        slices: int = 1,
        listed: bool = False,
        warm: bool = False,
        gangs: Sequence[str] = (),
        **options: Any,
    ) -> None:
        self.gke, self.clock = FakeGke(), StepClock(NOW)
        self._options = options | ({"capacity_policies": LIST} if listed else {})
        self.cluster = FakeCluster(self.gke)
        self.restart()
        self.key = Key(CLUSTER, "JobSet", "default", "train")
        self.plain: dict[str, Any] = {"replicas": slices} | ({"template": TEMPLATES["exclusive"]} if warm else {})
        self.set_jobset(**self.plain)
        self.queues = FakeQueues(self.cluster, self.clock)
        for name in gangs:
            self.hold("600", name=name)
            self.queues.queue(name)
        for function in (self.provisioner, self.collector):
            function.queues |= {CLUSTER: self.queues} if gangs else {}

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

    def find_pool(self, pool: str | int) -> str:
        """Return the name of a pool."""
        return self.gke.names[pool] if isinstance(pool, int) else pool

    def list_deleted(self) -> list[str]:
        return [name for name, pool in self.gke.pools.items() if pool.status == PoolStatus.STOPPING]

    # --- workloads and pods ---

    def set_jobset(self, **fields: Any) -> None:
        name = fields.setdefault("name", "train")
        uid = fields.setdefault("uid", JOBSET_UID if name == "train" else f"uid-of-{name}")
        self.cluster.workloads["JobSet", "default", name] = structs.replace(a_jobset(**fields), uid=uid)

    def jobset(self, **fields: Any) -> None:
        """A JobSet has one slice, unless said otherwise."""
        self.set_jobset(**{"replicas": 1} | fields)

    def suspend(self, seconds: float = 0, **fields: Any) -> None:
        """The JobSet was suspended so many seconds ago."""
        self.set_jobset(**self.plain | fields, suspended=True, suspended_since=self.clock.time - seconds)

    def finish(self, **fields: Any) -> None:
        """The JobSet completes, and its pods are gone."""
        self.set_jobset(**self.plain | {"terminal": "Completed"} | fields)
        self.cluster.pods.clear()

    def add(self, *names: str, age: float = 35.0) -> None:
        """JobSets of one slice each wait."""
        for name in names:
            self.jobset(name=name)
            self.wait(0, jobset=name, age=age)

    def wait(self, *slices: int, jobset: str = "train", age: float = 35.0) -> None:
        """The pods of slices wait; by default those of all."""
        for number in slices or range(self.plain["replicas"]):
            for host in range(4):
                name = f"{jobset}-{number}-{host}"
                pod = a_pod(jobset=jobset, index=number, name=name, uid=f"pod-{name}")
                uid = self.cluster.workloads["JobSet", "default", jobset].uid
                own = {jobset_keys.JOBSET_UID_ON_POD: uid, "batch.kubernetes.io/job-completion-index": str(host)}
                template = structs.replace(pod.template, labels=pod.template.labels | own)
                created_at = self.clock.time - age
                self.cluster.pods[name] = structs.replace(pod, template=template, created_at=created_at)

    def buy(self, *slices: int, age: float = 35.0) -> list[str]:
        """Let slices wait and get their pools; return all pools."""
        self.wait(*slices, age=age)
        self.provision()
        return list(self.gke.pools)

    def serve(self, replicas: int) -> None:
        """A Deployment on single hosts, of which all pods wait that run nowhere."""
        template = a_template(topology="2x2")
        group = SliceGroup(name="", replicas=replicas, hosts=1, template=template, elastic=True)
        self._add_workload("Deployment", "serve", groups=(group,), templates={"": template})
        own = structs.replace(template, labels={"pod-template-hash": "abc"})
        for name in (f"serve-{number}" for number in range(replicas)):
            pod = a_pod(name=name, uid=name, controller_kind="ReplicaSet", controller_name="serve-abc")
            pod = structs.replace(pod, template=own, controller_api_version="apps/v1")
            self.cluster.pods.setdefault(name, pod)

    def stray(self, name: str, controller: str = "") -> None:
        """A pod without the marks of any kind waits, perhaps of a controller that no kind has."""
        pod = a_pod(name=name, uid=name, controller_kind=controller, controller_name=controller)
        template = structs.replace(pod.template, labels={}, annotations={})
        self.cluster.pods[name] = structs.replace(pod, template=template)
        self._add_workload("Pod", name, templates={"": template})

    def _add_workload(self, kind: str, name: str, **fields: Any) -> None:
        view = WorkloadView(kind=kind, namespace="default", name=name, uid=name, **fields)
        self.cluster.workloads[kind, "default", name] = view

    def place(self, number: int, pool: str | int, jobset: str = "train") -> None:
        """The pods of a slice are bound to nodes that stay as they are."""
        for host in range(4):
            node = f"{self.find_pool(pool)}-{host}"
            self.change_pod(f"{jobset}-{number}-{host}", node_name=node, unschedulable=False)

    def run(self, number: int, pool: str | int, jobset: str = "train") -> None:
        """GKE makes the nodes of a pool, and a slice runs there."""
        self.come(pool)
        self.place(number, pool, jobset)

    def run_all(self, *, slices: int = 0) -> list[str]:
        """Let the slices of the JobSet, or the first ones, get pools and run there; return them."""
        names = self.buy(*range(slices))
        for number, name in enumerate(names):
            self.run(number, name)
        return names

    def change_pod(self, name: str, /, **fields: Any) -> None:
        """The API has a pod with other fields."""
        self.cluster.pods[name] = structs.replace(self.cluster.pods[name], **fields)

    def pods(self, **fields: Any) -> None:
        """The API has all pods with other fields."""
        for name in self.cluster.pods:
            self.change_pod(name, **fields)

    def terminate(self) -> None:
        self.pods(deleting=True, deleting_since=self.clock.time)

    def end_pods(self, prefix: str = "") -> None:
        pods = self.cluster.pods
        self.cluster.pods = {name: pod for name, pod in pods.items() if not name.startswith(prefix)}

    def end_workloads(self) -> None:
        self.cluster.workloads.clear()

    def label(self, namespace: str, **marks: Any) -> None:
        """A person gives a namespace these labels only, by their names in `shared.model.labels`."""
        self.cluster.labels[namespace] = {getattr(labels, key): str(value).lower() for key, value in marks.items()}

    def end_namespace(self, namespace: str) -> None:
        del self.cluster.labels[namespace]

    # --- what Kueue does ---

    def hold(self, seconds: str | int = "", **fields: Any) -> None:
        """A suspended workload says for how long a part of its pools is held; `none` is a blank."""
        marks = {labels.CAPACITY_CHECK_SECONDS: str(seconds).replace("none", "")} if seconds else {}
        self.suspend(marks=marks, **fields)

    def queue(self, **fields: Any) -> None:
        self.queues.queue(**fields)

    def lose_quota(self) -> None:
        self.queues.workloads["train"] = structs.replace(self.queues.workloads["train"], holds_quota=False)

    def end_kueue(self) -> None:
        self.queues.workloads.clear()
        self.queues.absent = True

    # --- what happens in GKE ---

    def pool(self, pool: str | int, /, **fields: Any) -> None:
        """GKE lists a pool with other fields."""
        name = self.find_pool(pool)
        self.gke.pools[name] = structs.replace(self.gke.pools[name], **fields)

    def unlabel(self, pool: int) -> None:
        self.pool(pool, labels={})

    def pool_label(self, pool: int, key: str, value: str) -> None:
        own = self.gke.pools[self.find_pool(pool)].labels
        self.pool(pool, labels=own | {getattr(labels, key): value})

    def come(self, pool: str | int, ready: int = 4) -> None:
        """GKE makes the nodes of a pool."""
        name = self.find_pool(pool)
        self.pool(name, status=PoolStatus.RUNNING)
        for host in range(ready):
            node = PoolNode(name=f"{name}-{host}", pool=name, ready=True, ready_at=self.clock.time)
            self.cluster.nodes[node.name] = node

    def unready(self) -> None:
        for name, node in list(self.cluster.nodes.items()):
            self.cluster.nodes[name] = structs.replace(node, ready=False, ready_at=None)

    def end_pool(self, pool: int) -> None:
        del self.gke.pools[self.find_pool(pool)]

    def hide(self) -> None:
        """No list shows the pools of now."""
        self.gke.hidden = set(self.gke.pools)

    def show(self) -> None:
        self.gke.hidden.clear()

    def go_pool(self, status: str = "RUNNING", name: str = "train-12345") -> None:
        """The Go program has left a pool."""
        self.gke.pools[name] = structs.replace(a_go_pool(name, status=status), topology="4x4")
        self.gke.names.append(name)

    def runs(self, pool: int) -> None:
        """GKE's operations show a create that runs."""
        run = Operation(pool=self.find_pool(pool), creates=True, ended=False, began_at=self.clock.time)
        self.gke.operations.append(run)

    def ended(self, verb: str, pool: int | str, ago: int = 0, seconds: int = 0, *words: str) -> None:
        """They show that one on a pool, or on another attempt of it, ended, perhaps in an error."""
        number, _, attempt = str(pool).partition("-")
        name, began = self.find_pool(int(number)), self.clock.time - ago
        operation = Operation(
            pool=f"{name[:-1]}{attempt or name[-1]}",
            creates=verb == "create",
            ended=True,
            error=" ".join(words),
            began_at=began,
            ended_at=began + seconds,
        )
        before = [each for each in self.gke.operations if each.ended]
        self.gke.operations = [*before, operation]

    # --- what happens to calls and in the process ---

    def on(self, calls: str, act: Callable[[], object], *, nth: int = 1, times: float = 1) -> None:
        """Let something happen before calls that match are answered, from one of them on."""
        seen = count(1)

        def before(call: str) -> None:
            if fnmatch(call, calls) and nth <= next(seen) < nth + times:
                act()

        self.gke.before.append(before)

    def fail(self, calls: str, error: Exception, *, nth: int = 1, times: float = inf) -> None:
        """Let calls that match a pattern end in an error."""

        def give() -> None:
            raise error

        self.on(calls, give, nth=nth, times=times)

    def refuse(self, error: str, verb: str = "create") -> None:
        """GKE refuses the next create, or another act."""
        self.fail(f"{verb} *", ERRORS[error], times=1)

    def recover(self) -> None:
        """Let nothing happen before a call any more."""
        self.gke.before.clear()

    def take_calls(self) -> list[str]:
        calls, self.gke.calls[:] = list(self.gke.calls), []
        return calls

    def settings(self, **fields: Any) -> None:
        """Let both functions have other settings."""
        for function in (self.provisioner, self.collector):
            changed = structs.replace(function.ports.settings, **fields)
            function.ports = structs.replace(function.ports, settings=changed)

    def provision(self) -> Run:
        return reconcile(self.key, self.provisioner.ports)

    def collect(self) -> Run:
        return reconcile(self.key, self.collector.ports)


def list_reasons(work: Work | Tick) -> list[str]:
    """Return the reasons that were told."""
    return [str(outcome.decision.reason) for outcome in work.outcomes]
