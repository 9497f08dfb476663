"""One run of workloads that are no JobSets, from the apply to the verified end.

A JobSet has a timeline of its slices (`demo.loop.running`). Of any other kind this tells what
changes: node pools, numbers of pods, and the Events that say why there are none. When all pods run,
or some cannot, the workloads are deleted.
"""

import time
from collections import Counter
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import httpx

from demo.loop.applying import Applier
from demo.loop.demo_manifests import Document
from demo.loop.kubernetes_views import read_pod
from demo.loop.observer import list_our_pools
from demo.loop.progress import Patience
from demo.loop.running import RunOptions
from demo.loop.standing import CREATION_FAILED, describe_event
from demo.loop.timeline import describe_unplaced
from demo.loop.views import View
from demo.stack.stack import Stack
from standins.processes.kubeconfig import open_client

_LOOK_SECONDS = 0.5
_RUNS_SECONDS = 3.0
"""All pods run, and nothing changes for so long: then a controller makes no more of them."""
_SETTLED = ("Running", "Succeeded")
_REFUSED = "NodePoolRefused"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scene:
    """What the cluster and GKE showed in one look."""

    pools: dict[str, str]
    pods: list[Json]
    events: list[Json]

    @property
    def phases(self) -> dict[str, int]:
        """Return how many pods are in each phase."""
        return dict(sorted(Counter(str(each["status"].get("phase", "Pending")) for each in self.pods).items()))

    @property
    def runs(self) -> bool:
        """Return whether there are pods, and all of them run or have run."""
        return bool(self.pods) and set(self.phases) <= set(_SETTLED)

    def list_obstacles(self) -> list[str]:
        """Return why pods are missing or can have no node, in the cluster's words or ours."""
        failed = [f"{'not all' if self.pods else 'no'} pods: {each}" for each in self._quote(CREATION_FAILED)]
        return [*failed[-1:], *self._quote((_REFUSED,)), *self._list_unplaced()]

    def _quote(self, reasons: Collection[str]) -> list[str]:
        own = (each for each in self.events if each.get("reason") in reasons)
        return list(dict.fromkeys(map(describe_event, own)))

    def _list_unplaced(self) -> list[str]:
        pods = (read_pod(each, 0.0) for each in self.pods)
        unplaced = (pod for pod in pods if pod.plain and pod.unschedulable and not pod.node)
        return [f"{pod.name}: {describe_unplaced(pod)}" for pod in unplaced]


@dataclass(slots=True)
class Calm:
    """Since when nothing has changed, and whether all pods have run."""

    since: float = 0.0
    ran: bool = False
    _before: tuple[dict[str, str], dict[str, int]] | None = None

    @property
    def seconds(self) -> float:
        """Return how long nothing has changed."""
        return time.monotonic() - self.since

    def take(self, scene: Scene) -> bool:
        """Take a look in; return whether it differs from the last one."""
        self.ran = self.ran or scene.runs
        state = (scene.pools, scene.phases)
        if state == self._before:
            return False
        self.since, self._before = time.monotonic(), state
        return True


@dataclass(slots=True)
class OtherOutcome:
    """What such a run came to."""

    pools: set[str] = field(default_factory=set)
    """All that were created."""
    refused: list[str] = field(default_factory=list)
    """Why workloads could not run."""
    problems: list[str] = field(default_factory=list)
    """What kept the end from being verified."""

    def describe(self) -> str:
        """Return the last words of the run."""
        if self.problems:
            return "\n  - ".join(("NOT VERIFIED:", *self.problems))
        refused = f"; {len(self.refused)} refused, with reasons above" if self.refused else ""
        return f"Verified: {len(self.pools)} node pools were created and deleted, none is left{refused}."


class OtherRun:
    """Applies documents to a stack and follows them to their end. All waits are bounded."""

    def __init__(self, stack: Stack, view: View, options: RunOptions) -> None:
        self._stack, self._view = stack, view
        speed = stack.settings.speed
        self._bound, self._patience = options.bound_seconds(speed), options.patience or Patience.at_speed(speed)
        self._outcome = OtherOutcome()
        self._shown: set[str] = set()

    def perform(self, documents: list[Document]) -> OtherOutcome:
        """Return the outcome. Raises BadManifest: the cluster refused a document."""
        addresses = self._stack.addresses
        deadline = time.monotonic() + self._bound
        with (
            closing(Applier(addresses.kubeconfig)) as applier,
            open_client(addresses.kubeconfig) as kubernetes,
            httpx.Client(base_url=addresses.gke_rest, timeout=10) as gke,
        ):
            applied = applier.apply(documents)
            for note in applied.notes:
                self._tell(note)
            workloads = [each for each in applied.created if each.is_workload]
            watcher = _Watcher(kubernetes, gke, sorted({each.namespace for each in documents}))
            if workloads:
                self._follow(watcher, deadline)
            else:
                self._outcome.problems += applied.notes
            for each in workloads:
                self._tell(f"deleting {each.kind} {each.namespace}/{each.name}")
                applier.delete(each)
            self._await_end(watcher, deadline)
        return self._outcome

    def _follow(self, watcher: "_Watcher", deadline: float) -> None:
        """Follow until all pods run, or some cannot and nothing changes any more."""
        calm, over = Calm(), False
        while not over:
            scene = self._look(watcher)
            obstacles = scene.list_obstacles()
            for each in obstacles:
                self._tell(each)
            if calm.take(scene):
                pools = Counter(scene.pools.values())
                self._view.say(f"pods: {_count(scene.phases)}; node pools: {_count(pools)}")
            over = self._is_over(scene, obstacles, calm, deadline)

    def _is_over(self, scene: Scene, obstacles: list[str], calm: Calm, deadline: float) -> bool:
        """Return whether there is nothing more to see, and note what is missing."""
        if calm.ran and not obstacles:
            return calm.seconds > _RUNS_SECONDS
        lacks = obstacles or ([] if scene.pods else ["no pods, and no Event gives the reason"])
        if lacks and calm.seconds > self._patience.silent_seconds:
            self._outcome.refused += lacks
        elif time.monotonic() > deadline:
            words = [f"{each['metadata']['name']} is {each['status'].get('phase')}" for each in scene.pods]
            self._outcome.problems += lacks or words
        return bool(self._outcome.refused or self._outcome.problems)

    def _await_end(self, watcher: "_Watcher", deadline: float) -> None:
        """Wait until neither pods nor node pools are left, for a minute at least."""
        deadline = max(deadline, time.monotonic() + 60)
        scene = self._look(watcher)
        while (scene.pools or scene.pods) and time.monotonic() < deadline:
            scene = self._look(watcher)
        self._outcome.problems += [
            f"node pool {name} is left in GKE ({status})" for name, status in scene.pools.items()
        ]
        self._outcome.problems += [f"pod {each['metadata']['name']} is left" for each in scene.pods]

    def _look(self, watcher: "_Watcher") -> Scene:
        time.sleep(_LOOK_SECONDS)
        self._stack.check()
        scene = watcher.look()
        self._outcome.pools |= scene.pools.keys()
        return scene

    def _tell(self, text: str) -> None:
        """Say something once."""
        if text not in self._shown:
            self._shown.add(text)
            self._view.say(text)


class _Watcher:
    """Looks at the pods and Events of some namespaces, and at the node pools."""

    def __init__(self, kubernetes: httpx.Client, gke: httpx.Client, namespaces: list[str]) -> None:
        self._kubernetes, self._gke, self._namespaces = kubernetes, gke, namespaces

    def look(self) -> Scene:
        """Return what is there now."""
        pods = [pod for each in self._namespaces for pod in self._list(f"/api/v1/namespaces/{each}/pods")]
        warnings = {"fieldSelector": "type=Warning"}
        events = [
            event
            for each in self._namespaces
            for event in self._list(f"/api/v1/namespaces/{each}/events", warnings)
        ]
        return Scene(list_our_pools(self._gke), pods, events)

    def _list(self, path: str, params: dict[str, str] | None = None) -> list[Json]:
        items: list[Json] = self._kubernetes.get(path, params=params).raise_for_status().json()["items"]
        return items


def _count(numbers: dict[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in numbers.items()) or "none"
