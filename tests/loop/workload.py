"""One workload of a life: what a step does with it, waits for, or expects of it.

Each public method, and each wait, is the verb of a step in `lives/`; its argument is the step's. A
wait ends as soon as the thing is there.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any, ClassVar

from shared.kinds.table import get_kind
from tests.loop.bodies import POOL, TEMPLATES, Json, asks_for_accelerators, build_workload, find_kind, read_range
from tests.loop.cloud import EVENTS, NODES, PODS, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.loop.cloud import Cloud

OWN_REASON = re.compile(r"\[([a-z_]+)\]$")
TICKS_SECONDS = 3.0


class Workload:
    """One workload in its namespace; its pods, pools and nodes have names that begin with its."""

    WAITS: ClassVar[dict[str, Callable[[Any, Any], object]]] = {
        "pods": lambda own, count: len(own.list_pods()) == count,  # of whatever phase
        "waits": lambda own, count: is_within(sum(map(is_unschedulable, own.list_pods())), count),
        "nodes": lambda own, count: len(own.list_nodes()) == count,
        # Nodes outlive their pool for some time, with their pods: without pools there is none.
        "has_pools": lambda own, count: len(own.list_pools()) == count and (count or not own.list_nodes()),
        "bound": lambda own, count: is_within(len(own.list_bindings()), count),  # to our nodes, ever
        "served_by": lambda own, count: len({pool for _, pool in own.list_bindings()}) == count,  # pools, ever
        "ends": lambda own, end: own.find_end() == end,
        "told": lambda own, words: any(words in each for each in own.list_events()),
    }
    """What a step may wait for by its verb: what holds then, of the workload and the argument."""

    def __init__(self, cloud: Cloud, namespace: str, name: str, words: Json) -> None:
        self.cloud, self.namespace, self.name, self.words = cloud, namespace, name, words
        self.labels: dict[str, str] = {}
        """That it has besides."""
        self.faults: list[int] = []
        self._stood: dict[str, str] = {}
        """The pool of each pod by UID, when pods were last waited for."""

    def do(self, verb: str, argument: Any) -> None:
        """Do a step; one that says what holds is waited for."""
        if verb in self.WAITS:
            self._wait(f"{verb} {argument}", lambda: self.WAITS[verb](self, argument))
        elif argument is None:
            getattr(self, verb)()
        else:
            getattr(self, verb)(argument)

    # --- what happens

    def apply(self, words: Json | None = None) -> None:
        """Create the workload, again if it was deleted."""
        self.words = self.words | (words or {})
        body = build_workload(self.words, self.name)
        body["metadata"]["labels"] = body["metadata"].get("labels", {}) | self.labels
        self.cloud.create(self.path.rpartition("/")[0], body)

    def change(self, fields: Json) -> None:
        """Set fields by their paths in one write; TEMPLATE stands for the pods' template."""
        template = TEMPLATES.get(self.kind, "/spec/template")
        patch = [
            {"op": "add", "path": path.replace("TEMPLATE", template), "value": value}
            for path, value in fields.items()
        ]
        self.cloud.patch(self.path, patch)

    def delete(self) -> None:
        """Delete the workload."""
        self.cloud.delete(self.path)

    def finish(self, word: str = "") -> None:
        """Report that its pods with a word in their names have succeeded, as their kubelet does."""
        for path in self._list_paths(word):
            self.cloud.patch(f"{path}/status", {"status": {"phase": "Succeeded"}}, gone_is_fine=True)

    def lose(self, word: str) -> None:
        """Delete the first pod with a word in its name or labels; return once its UID is gone."""
        pods = [pod for pod in self.list_pods() if word in f"{pod['metadata']['name']} {list_labels(pod)}"]
        pod = min(pods, key=lambda each: each["metadata"]["name"])
        self.cloud.delete(f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}")
        uid = pod["metadata"]["uid"]
        self._wait(f"no pod {uid}", lambda: uid not in {each["metadata"]["uid"] for each in self.list_pods()})

    def leave(self, word: str) -> None:
        """Scale a RayCluster in by the replica with this word in its labels, as Ray does."""
        names = [pod["metadata"]["name"] for pod in self.list_pods() if word in list_labels(pod)]
        (group, *_) = (self.cloud.get(self.path) or {})["spec"]["workerGroupSpecs"]
        own = "/spec/workerGroupSpecs/0"
        strategy = {"workersToDelete": sorted(names)[:1]}
        self.change({f"{own}/replicas": group["replicas"] - 1, f"{own}/scaleStrategy": strategy})
        self._wait(f"no {word}", lambda: not any(word in list_labels(pod) for pod in self.list_pods()))

    def free(self, word: str = "") -> None:
        """Take the gates away from its pods, or from those with a word in their names."""
        for path in self._list_paths(word):
            self.cloud.patch(path, {"spec": {"schedulingGates": None}})

    def fault(self, fault: Json) -> None:
        """Put a fault of the fake GKE in force for the pools of this workload."""
        self.faults.append(self.cloud.add_fault({"pool": f"{self.name}-*"} | fault))

    def heal(self) -> None:
        """Take its faults back."""
        while self.faults:
            self.cloud.clear_fault(self.faults.pop())

    # --- what is waited for

    def runs(self, count: int) -> None:
        """So many pods with accelerators run, all of them, and their pools are noted."""
        self._wait(f"{count} running pods", lambda: self._note_running(count))

    def kept(self, count: int) -> None:
        """So many pods run, on pools on which pods ran before."""
        pools = set(self._stood.values())
        self.runs(count)
        assert pools.issuperset(self._stood.values()), (self._stood, pools)

    def stays(self, count: int) -> None:
        """So many pods run, and none of them is new, or none of those before has gone."""
        uids = self._stood.keys()
        self.runs(count)
        now = self._stood.keys()
        assert now <= uids or now >= uids, "a pod was moved"

    def replaced(self, count: int) -> None:
        """So many pods run, and none of those that were noted is among them."""
        before = set(self._stood)
        self._wait("new pods", lambda: self._note_running(count) and before.isdisjoint(self._stood))

    def on_pools(self, count: int) -> None:
        """Its running pods are on so many pools, and it has no other pool."""
        self._wait(f"only {count} pools with pods", lambda: self._stands_on(count))

    def pool_is(self, status: str) -> None:
        """A pool of it has this status; one that is deleted takes no pods any more."""
        self._wait(f"a pool that is {status}", lambda: status in {each["status"] for each in self.list_pools()})
        if status == "STOPPING":
            self._wait(
                "no open node", lambda: all(node["spec"].get("unschedulable") for node in self.list_nodes())
            )

    def settled(self) -> None:
        """Each function has had its ticks: what was to come by one has come."""
        time.sleep(TICKS_SECONDS)

    # --- what is expected at once

    def unasked(self) -> None:
        """Nothing was ever asked of GKE for it."""
        assert self.list_calls() == []

    # --- what is seen

    @property
    def kind(self) -> str:
        return find_kind(self.words)

    @property
    def path(self) -> str:
        return get_kind(self.kind).path_of(self.namespace, self.name)

    def list_pods(self) -> list[Json]:
        return [each for each in self.cloud.list_live(PODS, self.namespace) if self.has(each["metadata"]["name"])]

    def list_pools(self) -> list[Json]:
        return [each for name, each in self.cloud.pools.items() if self.has(name)]

    def list_pools_ever(self) -> list[Json]:
        return [each for name, each in self.cloud.pools_ever.items() if self.has(name)]

    def list_nodes(self) -> list[Json]:
        return [
            each
            for each in self.cloud.list_live(NODES)
            if self.has(each["metadata"].get("labels", {}).get(POOL, ""))
        ]

    def list_calls(self) -> list[Json]:
        return [each for each in self.cloud.list_calls() if self.has(each["pool"])]

    def list_events(self) -> list[str]:
        """Return the messages of all Events in its namespace."""
        return [each["message"] for each in self.cloud.list_live(EVENTS, self.namespace)]

    def list_bindings(self) -> list[tuple[Json, str]]:
        bindings = self.cloud.list_bindings(self.namespace)
        return [each for each in bindings if self.has(each[0]["metadata"]["name"])]

    def find_end(self) -> str:
        """Return how the workload has ended; nothing while it lives."""
        body = self.cloud.get(self.path)
        if body is None or is_ending(body):
            return "gone"
        status = body.get("status", {})
        words = {each["type"] for each in status.get("conditions", ()) if each["status"] == "True"}
        words.add(status.get("phase", ""))
        return next((each for each in ("Completed", "Complete", "Failed", "Succeeded") if each in words), "")

    def has(self, name: str) -> bool:
        """Return whether a pod or pool is of this workload, by its name."""
        return name == self.name or name.startswith(f"{self.name}-")

    def _note_running(self, count: int) -> bool:
        pods = [pod for pod in self.list_pods() if asks_for_accelerators(pod) and not is_ending(pod)]
        pools = {
            pod["metadata"]["uid"]: self._find_pool(pod) for pod in pods if pod["status"].get("phase") == "Running"
        }
        seen = self.cloud.pools_ever.keys() >= set(pools.values())
        done = len(pods) == len(pools) == count and seen
        self._stood = pools if done else self._stood
        return done

    def _stands_on(self, count: int) -> bool:
        # Noted anew: an update that goes on makes further pods, maybe on other pools.
        pools = set(self._stood.values()) if self._note_running(len(self._stood)) else set()
        return len(pools) == count and pools == {each["name"] for each in self.list_pools()}

    def _find_pool(self, pod: Json) -> str:
        return self.cloud.hosts.get(pod["spec"].get("nodeName", ""), {}).get(POOL, "")

    def _list_paths(self, word: str) -> list[str]:
        """Return the paths of its pods with a word in their names."""
        names = [pod["metadata"]["name"] for pod in self.list_pods()]
        return [f"/api/v1/namespaces/{self.namespace}/pods/{name}" for name in names if word in name]

    def _wait(self, what: str, look: Any, **seconds: float) -> None:
        wait_for(f"{self.name}: {what}", look, **seconds)


def is_within(number: int, count: int | str) -> bool:
    """Return whether a number is another one, or between two with a line between them."""
    least, most = read_range(count)
    return least <= number <= most


def is_ending(body: Json) -> bool:
    """Return whether an object is being deleted."""
    return "deletionTimestamp" in body["metadata"]


def is_unschedulable(pod: Json) -> bool:
    """Return whether the scheduler has no place for a pod."""
    return any(each.get("reason") == "Unschedulable" for each in pod["status"].get("conditions", ()))


def list_labels(pod: Json) -> str:
    """Return the labels of a pod, as text."""
    return " ".join(f"{key}={value}" for key, value in pod["metadata"].get("labels", {}).items())
