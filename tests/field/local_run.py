"""Many workloads of the inputs on one local cloud at the same time, and what became of each.

Each workload has a namespace of its own, and its pods select a label that only its pools have.
"""

import re
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx

from demo.settings import CLUSTER_PATH, LOCATION, PROJECT
from demo.stack import Stack
from shared.kinds.table import get_kind
from tests.claimed_disks import CLASSES, DRIVER, VOLUMES, list_bound, name_claims
from tests.field.field_world import read_input
from tests.kinds.living import LONG
from tests.lives.cloud import WAIT_SECONDS, Cloud, wait_for
from tests.lives.jobset_bodies import LIFE, RUN_SECONDS

Json = dict[str, Any]
_POLL_SECONDS = 0.5
"""Each look reads Events and pods of all namespaces."""
_TICKS_SECONDS = 3.0
"""In which each function has had its ticks: what was to come by one has come."""
POLICY = {"topology": "4x4x4", "name": "team-4x4x4"}
"""The only placement policy of a team that exists."""
_AT_ONCE: Json = {"metadata": {"name": "standard"}, "provisioner": DRIVER, "volumeBindingMode": "Immediate"}
LATER_ZONE = "us-east5-c"
"""Of the disks that come after the pods."""
_OWN_REASON = re.compile(r"\[([a-z_]+)\]$")


@dataclass(frozen=True, kw_only=True)
class Row:
    """A workload of an input, and its right answer."""

    file: str
    workload: str
    told: str = ""
    """Kind and reason of an Event; nothing for what is left to GKE, and is told nothing."""
    words: str = ""
    """That the Event has."""
    pools: tuple[str, ...] = ()
    claim: str = ""
    """A claim of the input that is created before the workload."""
    volume: str = ""
    """A volume of the input that this claim is bound to."""
    comes: str = ""
    """A claim that gets its volume when everything has been told."""
    later: tuple[str, ...] = ()
    """The pools that come with it."""


@dataclass(slots=True)
class Answer:
    """What became of one workload."""

    told: dict[str, str] = field(default_factory=dict)
    """Text of each Event of ours by kind and reason."""
    pools: tuple[str, ...] = ()
    pods: int = 0
    later: tuple[str, ...] = ()
    """Its pools when its claim has come."""

    def fits(self, row: Row) -> bool:
        """Return whether this is all that a row waits for."""
        return bool(self.pods) and self.pools == row.pools and row.told in {"", *self.told}


class LocalRun:
    """The workloads of some rows on a running stack."""

    def __init__(self, cloud: Cloud, stack: Stack) -> None:
        self.cloud = cloud
        self._rest = stack.addresses.gke_rest

    def play(self, rows: Sequence[Row]) -> dict[str, Answer]:
        """Apply all rows, and return what became of each when nothing more is to come."""
        self._make_policy()
        self.cloud.create(CLASSES, _AT_ONCE)
        with ThreadPoolExecutor(max_workers=8) as threads:
            list(threads.map(self.apply, rows))
        self._wait(rows, lambda row, answer: answer.fits(row))
        threading.Event().wait(_TICKS_SECONDS)
        answers = self.read(rows)
        waiting = [row for row in rows if row.comes]
        for row in waiting:
            self.let_come(row)
        for name, answer in self._wait(waiting, lambda row, answer: answer.pools == row.later).items():
            answers[name].later = answer.pools
        return answers

    def _wait(self, rows: Sequence[Row], is_done: Callable[[Row, Answer], bool]) -> dict[str, Answer]:
        """Return the answers when all are as they should be, or the time is over."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            answers = self.read(rows)
            done = all(is_done(row, answers[row.workload]) for row in rows)
            if done or time.monotonic() > deadline:
                return answers
            threading.Event().wait(_POLL_SECONDS)

    def _make_policy(self) -> None:
        place = f"projects/{PROJECT}/regions/{LOCATION}/resourcePolicies"
        workload = {"type": "HIGH_THROUGHPUT", "acceleratorTopology": POLICY["topology"]}
        body = {"name": POLICY["name"], "workloadPolicy": workload}
        httpx.post(f"{self._rest}/compute/v1/{place}", json=body, timeout=30).raise_for_status()

    def let_come(self, row: Row) -> None:
        """Let a claim have a volume, as its driver does; one that is missing is made."""
        namespace = name_namespace(row)
        (_, volume), (path, claim) = list_bound(namespace, row.comes, f"{namespace}-disk", LATER_ZONE)
        if not row.claim:
            self.cloud.create(VOLUMES, volume)
            self.cloud.create(path, claim)
            return
        body = read_input(row.file, row.claim)["spec"]
        own = {"storageClassName": body["storageClassName"], "accessModes": body["accessModes"]}
        refers = {"claimRef": {"namespace": namespace, "name": row.claim}}
        volume["spec"] |= own | refers | {"capacity": body["resources"]["requests"]}
        self.cloud.create(VOLUMES, volume)
        self.bind(namespace, row.claim, volume["metadata"]["name"])

    def apply(self, row: Row) -> None:
        """Create a workload, and before it what it needs."""
        namespace = name_namespace(row)
        self.cloud.create_namespace(namespace)
        if row.volume:
            self.create_volume(row.volume, namespace, read_input(row.file, row.volume))
        if row.claim:
            self.cloud.create(name_claims(namespace), read_input(row.file, row.claim))
        if row.volume:
            self.bind(namespace, row.claim, row.volume)
        body = read_input(row.file, row.workload)
        isolate(body, row.workload)
        self.cloud.create(find_path(row, body).rpartition("/")[0], body)

    def create_volume(self, name: str, namespace: str, body: Json) -> None:
        """Create a volume for the claim that it refers to in a namespace."""
        body["metadata"]["name"] = name
        body["spec"]["claimRef"]["namespace"] = namespace
        self.cloud.create(VOLUMES, body)

    def bind(self, namespace: str, claim: str, volume: str) -> None:
        """Return once a claim is bound; the embedded cluster has no controller that does it."""
        path = f"{name_claims(namespace)}/{claim}"
        if not self.cloud.is_real:
            self.cloud.patch(path, {"spec": {"volumeName": volume}})
        wait_for(f"{claim} bound", lambda: (self.cloud.get(path) or {})["spec"].get("volumeName"))

    def read(self, rows: Sequence[Row]) -> dict[str, Answer]:
        """Return what has become of each row by now."""
        pools = self._list_pools()
        return {row.workload: self._read_one(row, pools) for row in rows}

    def _list_pools(self) -> list[Json]:
        answer = httpx.get(f"{self._rest}/v1/{CLUSTER_PATH}/nodePools", timeout=30).raise_for_status()
        pools: list[Json] = answer.json().get("nodePools", [])
        return pools

    def _read_one(self, row: Row, pools: Sequence[Json]) -> Answer:
        path = f"/api/v1/namespaces/{name_namespace(row)}"
        mine = [each for each in pools if find_workload(each) == row.workload]
        told = {}
        for event in self.cloud.items(f"{path}/events"):
            if reason := _OWN_REASON.search(event["message"]):
                told[f"{event['involvedObject']['kind']} {reason[1]}"] = event["message"]
        return Answer(
            told=told,
            pools=tuple(sorted(describe_pool(each) for each in mine)),
            pods=len(self.cloud.items(f"{path}/pods")),
        )

    def end(self, rows: Sequence[Row]) -> None:
        """Delete everything, and return once no pool is left."""
        names = {row.workload for row in rows}
        for row in rows:
            self.cloud.delete(find_path(row, read_input(row.file, row.workload)))
        wait_for("no pools", lambda: names.isdisjoint(map(find_workload, self._list_pools())))
        for row in rows:
            self.cloud.delete(f"/api/v1/namespaces/{name_namespace(row)}")
        for volume in self.cloud.items(VOLUMES):
            self.cloud.delete(f"{VOLUMES}/{volume['metadata']['name']}")
        self.cloud.delete(f"{CLASSES}/{_AT_ONCE['metadata']['name']}")


def find_workload(pool: Json) -> str:
    """Return for which workload a pool was made, by the label that its pods select."""
    return str(pool["config"].get("labels", {}).get(LIFE, ""))


def name_namespace(row: Row) -> str:
    """Return the namespace of a row's workload."""
    return f"field-{row.workload}"


def find_path(row: Row, body: Json) -> str:
    """Return the path of a row's workload."""
    return get_kind(body["kind"]).path_of(name_namespace(row), row.workload)


def isolate(body: Json, workload: str) -> None:
    """Let the pods of a workload run long, and only on its own pools."""
    spec = body.get("spec")
    if isinstance(spec, dict) and "containers" in spec:
        body.setdefault("metadata", {}).setdefault("annotations", {})[RUN_SECONDS] = str(LONG)
        spec.setdefault("nodeSelector", {})[LIFE] = workload
        return
    for value in body.values():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict):
                isolate(each, workload)


def describe_pool(body: Json) -> str:
    """Return nodes, machine type and zone of a pool; placement and disk as far as asked."""
    config, placement, autoscaling = body["config"], body.get("placementPolicy", {}), body.get("autoscaling", {})
    disk = config.get("diskSizeGb", 100)
    most = autoscaling.get("totalMaxNodeCount") or autoscaling.get("maxNodeCount")
    words = [
        f"up to {most}" if autoscaling.get("enabled") else str(body["initialNodeCount"]),
        config["machineType"],
        *body["locations"],
        placement.get("tpuTopology", ""),
        placement.get("policyName", ""),
        f"{disk} GB" if disk != 100 else "",
    ]
    return " ".join(filter(None, words))
