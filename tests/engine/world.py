"""A small world behind the engine's ports: what is created can be listed, and time is moved by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shared.engine.budget import Budget
from shared.engine.look import Key, Memory
from shared.engine.outside import Ports
from shared.engine.reconcile import Result, Role, reconcile
from shared.engine.threads import Crew
from shared.engine.tick import Tick, tick
from shared.kinds.table import find_kind_of_pod, is_pod_of
from shared.model.errors import AlreadyExists
from shared.model.pools import NodePool, PoolStatus
from shared.model.readings import BoundPod, Machines, Namespace, Notice, Operation, PoolNode
from shared.model.workloads import Disk, Parent, PodView, Taint, WorkloadView
from tests.builders import CLUSTER, NOW, a_jobset, a_pod, settings

EFFECTS = {"NO_SCHEDULE": "NoSchedule"}


class FakeGke:
    def __init__(self) -> None:
        self.pools: dict[str, NodePool] = {}
        self.operations: list[Operation] = []
        self.machines: dict[str, Machines] = {}
        self.calls: list[str] = []
        self.refusals: list[Exception] = []

    def list(self, cluster: str) -> list[NodePool]:
        self.calls.append("list pools")
        return list(self.pools.values())

    def get(self, cluster: str, name: str) -> NodePool | None:
        self.calls.append(f"get {name}")
        return self.pools.get(name)

    def list_operations(self, cluster: str) -> Sequence[Operation]:
        self.calls.append("list operations")
        return self.operations

    def read_machines(self, pool: NodePool) -> Machines:
        self.calls.append(f"machines {pool.name}")
        return self.machines.get(pool.name, Machines())

    def find_channel(self, cluster: str) -> str:
        return "REGULAR"

    def create(self, cluster: str, node_pool: Mapping[str, Any]) -> None:
        name, config = node_pool["name"], node_pool["config"]
        self.calls.append(f"create {name}")
        if self.refusals:
            raise self.refusals.pop(0)
        if name in self.pools:
            raise AlreadyExists(name)
        autoscaling = node_pool.get("autoscaling", {})
        self.pools[name] = NodePool(
            name=name,
            status=PoolStatus.PROVISIONING,
            labels=dict(config["labels"]),
            taints=tuple(
                Taint(each["key"], each["value"], EFFECTS[each["effect"]]) for each in config.get("taints", ())
            ),
            machine_type=config["machineType"],
            accelerator=next((each["acceleratorType"] for each in config.get("accelerators", ())), ""),
            gpus_per_node=sum(int(each["acceleratorCount"]) for each in config.get("accelerators", ())),
            topology=node_pool.get("placementPolicy", {}).get("tpuTopology", ""),
            node_count=node_pool["initialNodeCount"] or autoscaling.get("maxNodeCount", 0),
            zones=tuple(node_pool["locations"]),
            spot=config.get("spot", False),
            autoscaled=bool(autoscaling),
        )

    def raise_maximum(self, cluster: str, name: str, nodes: int, *, least: int = 0) -> None:
        self.calls.append(f"raise {name} {nodes}")
        self.pools[name] = dataclasses.replace(self.pools[name], node_count=nodes)

    def lower_maximum(self, cluster: str, name: str, nodes: int) -> None:
        self.calls.append(f"lower {name} {nodes}")
        self.pools[name] = dataclasses.replace(self.pools[name], node_count=nodes)

    def delete(self, cluster: str, name: str) -> None:
        self.calls.append(f"delete {name}")
        self.pools[name] = dataclasses.replace(self.pools[name], status=PoolStatus.STOPPING)


class FakeCluster:
    def __init__(self, gke: FakeGke) -> None:
        self.gke, self.calls = gke, gke.calls
        self.workloads: dict[tuple[str, str, str], WorkloadView] = {}
        self.pods: dict[str, PodView] = {}
        self.nodes: dict[str, PoolNode] = {}
        self.labels: dict[str, dict[str, str]] = {"tpu-provisioner": {}, "default": {}, "kube-system": {}}
        self.notices: list[Notice] = []

    def get_workload(self, kind: str, namespace: str, name: str) -> WorkloadView | None:
        self.calls.append(f"get {kind} {name}")
        return self.workloads.get((kind, namespace, name))

    def get_parent(self, parent: Parent) -> Parent | None:
        return None

    def find_disk(self, namespace: str, claim: str) -> Disk | None:
        return None

    def get_namespace(self, name: str) -> Namespace | None:
        self.calls.append(f"get namespace {name}")
        return Namespace(uid=f"uid-of-{name}", labels=self.labels[name]) if name in self.labels else None

    def list_workload_pods(self, workload: WorkloadView) -> Sequence[PodView]:
        self.calls.append("list pods")
        return [pod for pod in self.pods.values() if is_pod_of(workload, pod)]

    def list_accelerator_pods(self, *, unbound: bool = False) -> Iterable[PodView]:
        self.calls.append("list all pods")
        return [pod for pod in self.pods.values() if not (unbound and pod.node_name)]

    def list_nodes(self, pools: Sequence[str] = ()) -> Sequence[PoolNode]:
        self.calls.append("list nodes")
        return [node for node in self.nodes.values() if not pools or node.pool in pools]

    def list_bound_pods(self, node: str) -> Sequence[BoundPod]:
        self.calls.append(f"list pods on {node}")
        return [self._bind(pod) for pod in self.pods.values() if pod.node_name == node and not pod.finished]

    def _bind(self, pod: PodView) -> BoundPod:
        kind = find_kind_of_pod(pod)
        return BoundPod(
            namespace=pod.namespace,
            name=pod.name,
            kind=kind.name if kind else "",
            workload=kind.find_owner(pod) if kind else "",
            chips=pod.template.units,
            deleting_since=None,
            node=pod.node_name,
            uid=pod.uid,
            created_at=pod.created_at,
        )

    def mark_idle(self, node: str, since: float | None, *, closed: bool = False) -> None:
        self.calls.append(f"mark {node}")
        self.nodes[node] = dataclasses.replace(self.nodes[node], idle_since=since, closed=closed)

    def write_notice(self, notice: Notice) -> None:
        self.notices.append(notice)


class Clock:
    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> float:
        return self.time

    def pause(self, seconds: float) -> None:
        self.time += seconds


class World:
    """JobSet ``default/train`` with slices of 4x4 v6e, and what happens to it."""

    def __init__(self, *, slices: int = 1, **options: Any) -> None:
        self.gke, self.clock, self.memory = FakeGke(), Clock(), Memory()
        self.cluster = FakeCluster(self.gke)
        self.settings = settings(**options)
        self.ports = Ports(
            settings=self.settings,
            pools=self.gke,
            adds=self.gke,
            takes=self.gke,
            clusters={CLUSTER: self.cluster},
            clock=self.clock,
            budget=Budget(self.settings),
            crew=Crew(threads=False),
        )
        self.key = Key(CLUSTER, "JobSet", "default", "train")
        self.set_jobset(replicas=slices)

    def set_jobset(self, **fields: Any) -> None:
        self.cluster.workloads["JobSet", "default", "train"] = a_jobset(**fields)

    def wait(self, *slices: int) -> None:
        for number in slices:
            for host in range(4):
                pod = a_pod(index=number, name=f"train-{number}-{host}", uid=f"pod-{number}-{host}")
                self.cluster.pods[pod.name] = pod

    def run(self, number: int, pool: str) -> None:
        """GKE makes the nodes of a pool, and a slice runs there."""
        self.gke.pools[pool] = dataclasses.replace(self.gke.pools[pool], status=PoolStatus.RUNNING)
        for host in range(4):
            node = PoolNode(name=f"{pool}-{host}", pool=pool, ready=True, ready_at=self.clock.time)
            self.cluster.nodes[node.name] = node
            name = f"train-{number}-{host}"
            pod = self.cluster.pods[name]
            self.cluster.pods[name] = dataclasses.replace(pod, node_name=node.name, unschedulable=False)

    def provision(self) -> Result:
        return reconcile(self.key, Role.PROVISION, self.ports, self.memory)

    def collect(self) -> Result:
        return reconcile(self.key, Role.COLLECT, self.ports, self.memory)

    def tick(self, role: str) -> Tick:
        return tick(CLUSTER, Role(role), self.ports, self.memory)

    def take_calls(self) -> list[str]:
        calls, self.gke.calls[:] = list(self.gke.calls), []
        return calls
