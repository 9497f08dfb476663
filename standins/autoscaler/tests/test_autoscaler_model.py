"""The stand-in autoscaler plays the scenarios, against the fake GKE's model in virtual time."""

import itertools
from typing import Any

import pytest
from google.protobuf import json_format

from standins.autoscaler.model import Autoscaler, Times
from standins.autoscaler.node_groups import read_group
from standins.autoscaler.picture import Action, Event, GiveUp, Group, RemoveNodes, Resize, Seen
from standins.autoscaler.tests.autoscaler_scenarios import STAND_IN, Row, list_rows
from standins.autoscaler.tests.autoscaler_world import POOL, AutoscalerWorld, PodEvent, build_pool, build_template
from standins.google.gke.compute import InstanceGroups
from standins.google.tests.fakegke_worlds import PROJECT, ZONE, InProcessWorld
from standins.kit.fitting import KEEPS, Node, Placing, Pod, is_finished, read_node, read_pod

_READY = [{"type": "Ready", "status": "True"}]


class ModelWorld(AutoscalerWorld):
    """The models of the stand-in and of the fake GKE, and a small scheduler, in one process."""

    def __init__(self, times: Times | None = None) -> None:
        self._gke = InProcessWorld()
        self._groups = InstanceGroups(self._gke.gke)
        self._autoscaler = Autoscaler(times)
        self._pods: dict[str, dict[str, Any]] = {}
        self._near: dict[str, str] = {}
        self._kept: set[str] = set()
        self._events: dict[str, list[PodEvent]] = {}
        self._uids = itertools.count()
        self.actions: list[tuple[float, Action]] = []

    @property
    def now(self) -> float:
        return self._gke.clock.now()

    def add_pool(self, name: str, *, hosts: int = 4, **changes: Any) -> None:
        self._gke.create(build_pool(name, hosts, changes))
        self.advance(30)

    def add_pod(self, name: str, **changes: Any) -> None:
        made = {"name": name, "namespace": "default", "uid": f"uid-{next(self._uids)}"}
        owners = [{"kind": "Job", "controller": True}]
        pod = build_template(changes)
        pod["metadata"] |= {**made, "ownerReferences": owners}
        self._pods[name] = {**pod, "status": {"phase": "Pending"}}
        self._near[name] = changes.get("near", "")

    def end_pod(self, name: str) -> None:
        self._pods[name]["status"]["phase"] = "Succeeded"

    def add_fault(self, **fault: Any) -> None:
        self._gke.add_fault(**fault)

    def clear_faults(self) -> None:
        self._gke.gke.faults.clear()

    def keep_node(self, node: str, *, kept: bool = True) -> None:
        (self._kept.add if kept else self._kept.discard)(node)

    def advance(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self._gke.advance(min(self.STEP, until - self.now))
            self._schedule()
            for action in self._autoscaler.look(self.now, self._see()):
                self.actions.append((self.now, action))
                self._act(action)

    def list_nodes(self, pool: str) -> list[str]:
        found = (each["metadata"] for each in self._nodes())
        return [each["name"] for each in found if each["labels"][POOL] == pool]

    def read_target(self, pool: str) -> int:
        return int(self._ask("GET get", pool)["targetSize"])

    def find_node_of(self, pod: str) -> str:
        return str(self._pods[pod]["spec"].get("nodeName", ""))

    def list_events(self, pod: str, reason: str) -> list[PodEvent]:
        return [each for each in self._events.get(pod, ()) if each.reason == reason]

    def _ask(self, key: str, pool: str, **options: Any) -> dict[str, Any]:
        name = self._gke.pools[pool].message.instance_group_urls[0].rsplit("/", 1)[-1]
        return self._groups.call(key, project=PROJECT, zone=ZONE, name=name, options=options)

    def _nodes(self) -> list[dict[str, Any]]:
        nodes = [node.manifest for pool in self._gke.pools.values() for node in pool.nodes.values()]
        return [
            {
                "metadata": {
                    **node["metadata"],
                    "annotations": {KEEPS: str(node["metadata"]["name"] in self._kept).lower()},
                },
                "spec": node["spec"],
                "status": {**node["status"], "conditions": _READY},
            }
            for node in nodes
        ]

    def _see(self) -> Seen:
        pods = [read_pod(each) for each in self._pods.values() if not is_finished(each)]
        groups = [json_format.MessageToDict(each.message) for each in self._gke.pools.values()]
        return Seen(
            tuple(pods),
            tuple(map(read_node, self._nodes())),
            tuple(self._read_group(pool) for pool in groups if pool["status"] == "RUNNING"),
        )

    def _read_group(self, pool: dict[str, Any]) -> Group:
        name = pool["name"]
        rows = self._ask("POST listManagedInstances", name)["managedInstances"]
        template = read_node(self._ask("GET template", name))
        return read_group(pool, self._ask("GET get", name), rows, template)

    def _schedule(self) -> None:
        names = {each["metadata"]["name"] for each in self._nodes()}
        for body in self._pods.values():
            if body["spec"].get("nodeName") not in names:
                body["spec"].pop("nodeName", None)  # its Job makes it anew
        present = [read_pod(body) for body in self._pods.values() if not is_finished(body)]
        placing = Placing(map(read_node, self._nodes()), present)
        for pod in present:
            if not pod.node:
                near = placing.rows.get(self._near[pod.name])
                row = (near and placing.place(pod, [near])) or placing.place(pod)
                body = self._pods[pod.name]
                if row is not None:
                    body["spec"]["nodeName"] = row.node.name
                unbound = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
                body["status"]["conditions"] = [] if row is not None else [unbound]

    def _act(self, action: Action) -> None:
        if isinstance(action, Event):
            event = PodEvent(self.now, action.reason, action.message, action.type)
            self._events.setdefault(action.pod.name, []).append(event)
            return
        if isinstance(action, Resize):
            self._ask("POST resize", action.group.pool, size=action.size)
        else:
            names = action.instances if isinstance(action, GiveUp) else action.nodes
            self._ask("POST deleteInstances", action.group.pool, instances=list(names))
        if isinstance(action, RemoveNodes):
            for pod in action.pods:
                del self._pods[pod.name]["spec"]["nodeName"]


@pytest.mark.parametrize("row", list_rows(STAND_IN), ids=lambda row: row.play.__name__)
def test_the_stand_in_does_what_an_autoscaler_does(row: Row) -> None:
    row.play(ModelWorld(Times(utilization=row.threshold)))


def test_so_many_groups_grow_in_one_loop_as_the_settings_say() -> None:
    template = Node(name="template", labels={"pool": "p"}, allocatable={"google.com/tpu": 4})
    groups = tuple(Group(id=f"g{index}", pool="p", zone="z", largest=1, template=template) for index in range(5))
    pods = tuple(
        Pod(namespace="n", name=f"p{index}", uid=f"u{index}", unschedulable=True, requests={"google.com/tpu": 4})
        for index in range(5)
    )
    for most in (1, 3):
        actions = Autoscaler(Times(scale_ups_max=most)).look(0.0, Seen(pods=pods, groups=groups))
        assert sum(isinstance(each, Resize) for each in actions) == most
