"""The history of a run as lines with time and source, from the public APIs and the logs.

Pure: objects and records in, lines out. Who looks is in `demo.ray.looking`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from demo.loop.observations import Called, Decided, MessagePublished
from demo.ray.ray_manifests import REPLICA_NAME

Json = dict[str, Any]

_CHANGES = ("CreateNodePool", "DeleteNodePool", "SetNodePoolSize")


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened."""

    at: float
    who: str
    what: str


@dataclass(slots=True)
class Look:
    """Everything as it was at one moment."""

    at: float
    clusters: list[Json]
    pods: list[Json]
    nodes: list[Json]
    pools: dict[str, str]
    """Name and status of every node pool."""
    records: list[Called | Decided | MessagePublished]
    """What was called, decided and published since the look before."""
    driver: list[Json]
    """What the driver said since then."""


@dataclass(slots=True)
class Facts:
    """What the end is judged by."""

    answers: list[Json] = field(default_factory=list)
    let_go: set[str] = field(default_factory=set)
    """The kinds whose actors the driver needs no more."""
    calls: list[Called] = field(default_factory=list)
    pool_of_pod: dict[str, str] = field(default_factory=dict)
    """The pool that a worker ran on, by its name."""
    replica_of_pod: dict[str, str] = field(default_factory=dict)
    """The replica of a worker whose group has several hosts, by its name."""
    replicas_seen: dict[str, list[int]] = field(default_factory=dict)
    """The replicas of each group, whenever they changed."""


class RunLog:
    """Turns looks into lines, each once."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.facts = Facts()
        self._last: dict[tuple[str, str], object] = {}
        self._leaving: dict[str, tuple[str, ...]] = {}
        self._pool_of_node: dict[str, str] = {}

    def take(self, look: Look) -> list[Line]:
        """Return the lines of what is new, oldest first."""
        self._pool_of_node |= {
            each["metadata"]["name"]: each["metadata"]["labels"].get("cloud.google.com/gke-nodepool", "")
            for each in look.nodes
        }
        found = [
            *(line for each in look.driver for line in self._driver(each)),
            *(line for cluster in look.clusters for line in self._groups(look.at, cluster)),
            *self._pods(look.at, look.pods),
            *(line for record in look.records for line in self._record(record)),
            *self._nodes(look.at, look.nodes),
            *self._pools(look.at, look.pools),
        ]
        found.sort(key=lambda line: line.at)
        self.lines += found
        return found

    def _driver(self, record: Json) -> Iterable[Line]:
        at = float(record["at"])
        if record["step"] == "asked":
            asks = " and ".join(
                f"{record['actors']} actors with {_ask(each)} each" for each in record["asks"].values()
            )
            yield Line(at, "driver", f"asks for {asks}")
        elif record["step"] == "answered":
            self.facts.answers.append(record)
            given = ", ".join(f"{kind} {amount:g}" for kind, amount in sorted(record["given"].items()))
            yield Line(at, "driver", f"an actor answers from {record['pod']}, which gave it {given}")
        elif record["step"] == "let go":
            self.facts.let_go.add(record["kind"])
            yield Line(at, "driver", f"releases its {record['kind']} actors")
        elif record["step"] == "failed":
            yield Line(at, "driver", f"fails: {record['error']}")
        else:
            yield Line(at, "driver", "is connected")

    def _groups(self, at: float, cluster: Json) -> Iterable[Line]:
        for group in cluster["spec"]["workerGroupSpecs"]:
            name, replicas = group["groupName"], int(group["replicas"])
            leaving = tuple((group.get("scaleStrategy") or {}).get("workersToDelete") or ())
            seen = self.facts.replicas_seen.setdefault(name, [])
            before, left = seen[-1] if seen else replicas, self._leaving.get(name, ())
            self._leaving[name] = leaving
            if not seen or replicas != before:
                seen.append(replicas)
            if replicas != before or set(leaving) - set(left):
                named = f", naming {' and '.join(leaving)} to leave" if leaving else ""
                yield Line(at, "Ray's autoscaler", f"sets replicas of {name} from {before} to {replicas}{named}")

    def _pods(self, at: float, pods: list[Json]) -> Iterable[Line]:
        present = set()
        for pod in pods:
            name = pod["metadata"]["name"]
            present.add(name)
            for step, who, what in self._steps(pod):
                if self._is_new("pod", f"{name} {step}"):
                    yield Line(at, who, f"{what} {name}")
        for name in [name for kind, name in self._last if kind == "present" and name not in present]:
            del self._last["present", name]
            yield Line(at, "kubelet", f"has ended {name}")
        self._last |= {("present", name): True for name in present}

    def _steps(self, pod: Json) -> Iterable[tuple[str, str, str]]:
        metadata, status, node = pod["metadata"], pod.get("status", {}), pod["spec"].get("nodeName")
        yield "made", "KubeRay", "makes"
        replica = metadata.get("labels", {}).get(REPLICA_NAME)
        if replica:
            self.facts.replica_of_pod[metadata["name"]] = replica
        if node:
            self.facts.pool_of_pod[metadata["name"]] = self._pool_of_node.get(node, "")
            yield "bound", "scheduler", f"binds to {node}:"
        elif any(each.get("reason") == "Unschedulable" for each in status.get("conditions", ())):
            yield "waits", "scheduler", "has no node for"
        if status.get("phase") == "Running":
            yield "runs", "kubelet", "has started the processes of"
        if status.get("phase") == "Failed":
            yield "fails", "kubelet", "reports as failed"
        if metadata.get("deletionTimestamp"):
            yield "leaves", "KubeRay", "deletes"

    def _record(self, record: Called | Decided | MessagePublished) -> Iterable[Line]:
        if isinstance(record, MessagePublished):
            yield Line(record.at, "exporter", f"publishes {record.observed} of {record.subject}")
        elif isinstance(record, Decided):
            if record.function != "sweep" or record.decision not in ("keep", "wait", "nothing"):
                text = f"decides {record.decision}, because {record.reason}"
                yield Line(record.at, record.function, f"{text}: {_pool(record)}")
        elif record.pool:
            self.facts.calls.append(record)
            if record.method in _CHANGES:
                yield Line(record.at, "GKE", f"answers {record.code} to {record.method} {record.pool}")

    def _nodes(self, at: float, nodes: list[Json]) -> Iterable[Line]:
        ready: dict[str, int] = {}
        for node in nodes:
            pool = self._pool_of_node.get(node["metadata"]["name"], "")
            conditions = node.get("status", {}).get("conditions", ())
            if any(each["type"] == "Ready" and each["status"] == "True" for each in conditions):
                ready[pool] = ready.get(pool, 0) + 1
        for pool, count in ready.items():
            if pool != "cpu" and self._changed("ready", pool, count):
                yield Line(at, "GKE", f"has {count} ready node{'s' * (count > 1)} in {pool}")

    def _pools(self, at: float, pools: dict[str, str]) -> Iterable[Line]:
        for name, status in pools.items():
            if self._changed("pool", name, status):
                yield Line(at, "GKE", f"says {name} is {status}")
        for name in [name for kind, name in self._last if kind == "pool" and name not in pools]:
            del self._last["pool", name]
            yield Line(at, "GKE", f"has deleted {name}")

    def _is_new(self, kind: str, name: str) -> bool:
        return self._changed(kind, name, value=True)

    def _changed(self, kind: str, name: str, value: object) -> bool:
        before = self._last.get((kind, name))
        self._last[kind, name] = value
        return before != value


def _ask(options: Json) -> str:
    resources: Json = options.get("resources") or {"GPU": options.get("num_gpus")}
    return " and ".join(f"{amount} {kind}" for kind, amount in resources.items())


def _pool(decided: Decided) -> str:
    if decided.decision == "create":
        return f"{decided.pool}, {decided.node_count} x {decided.machine_type}"
    return decided.pool or decided.message
