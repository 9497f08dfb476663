"""Follows cases from the apply to the end of the last pool; deletes all when all pods run.

All at once, because slices of the same shape may run on each other's pools: whoever ended earlier
would take them away.

It reads what everybody may: pods and nodes from Kubernetes, pools and calls from GKE, the
functions' records.
"""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import httpx

from demo.kinds.cases import Case
from demo.loop.applying import Applier
from demo.loop.observations import Called, Decided, Observation, PoolsListed
from demo.loop.observer import GkePoll, LogTail, list_our_pools
from demo.loop.states import FeedLine
from demo.stack.layout import CLUSTER_PATH, FUNCTIONS
from demo.stack.stack import Stack
from shared.core import labels
from standins.processes.kubeconfig import open_client

Json = dict[str, Any]
_LOOK_SECONDS = 0.5
_CALL_SECONDS_MAX = 30.0
_END_SECONDS_MAX = 5.0
_QUIET_SECONDS_MAX = 20.0
"""After so long without a line it is said what is still waited for."""
_ACCELERATORS = (labels.TPU_RESOURCE, "nvidia.com/gpu")


class Following:
    """Knows the cases of one run. `tell` takes each line of the timeline as it comes about."""

    def __init__(
        self, stack: Stack, applier: Applier, cases: Sequence[Case], tell: Callable[[FeedLine], None]
    ) -> None:
        self._stack, self._applier, self._cases, self._tell = stack, applier, cases, tell
        self._by_namespace = {case.namespace: case for case in cases}
        self._case_of_pool: dict[str, Case] = {}
        self._early_calls: list[Called] = []
        self._told_at = time.monotonic()
        self.pools_now: dict[str, str] = {}

    def follow(self, seconds: float) -> list[str]:
        """Follow until all cases are over, or the time is up; return the pools that are left."""
        seen: queue.SimpleQueue[Observation] = queue.SimpleQueue()
        stopping = threading.Event()
        addresses, layout = self._stack.addresses, self._stack.layout
        threads: list[threading.Thread] = [GkePoll(addresses.gke_rest, seen.put, stopping)]
        threads += [LogTail(layout.log(name), name, seen.put, stopping) for name in FUNCTIONS]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + seconds
        try:
            with (
                open_client(addresses.kubeconfig, timeout_seconds=_CALL_SECONDS_MAX) as kubernetes,
                httpx.Client(base_url=addresses.gke_rest, timeout=_CALL_SECONDS_MAX) as gke,
            ):
                while not all(case.over for case in self._cases) and time.monotonic() < deadline:
                    try:
                        self._look(seen, kubernetes, gke)
                    except httpx.TransportError as error:
                        self._tell_all(f"trying again after {type(error).__name__}: {error}")
                    self._stack.check()
                    self._tell_progress()
                    time.sleep(_LOOK_SECONDS)
                return sorted(list_our_pools(gke))
        finally:
            stopping.set()
            for thread in threads:
                thread.join(_END_SECONDS_MAX)

    def _look(self, seen: queue.SimpleQueue[Observation], kubernetes: httpx.Client, gke: httpx.Client) -> None:
        self._read_pools(gke)
        while not seen.empty():
            self.take(seen.get())
        for case in self._cases:
            if case.pools and not case.runs_at:
                self._look_for_pods(case, kubernetes)
        if all(case.runs_at for case in self._cases):
            self._let_go()

    def _tell_progress(self) -> None:
        if time.monotonic() - self._told_at < _QUIET_SECONDS_MAX:
            return
        for what, missing in (
            ("pods that run", [case for case in self._cases if not case.runs_at]),
            ("pools that are deleted", [case for case in self._cases if case.let_go_at and not case.over]),
        ):
            if missing:
                self._tell_all(f"waiting for {what}: {', '.join(case.who for case in missing)}")

    def _tell_all(self, text: str) -> None:
        self._told_at = time.monotonic()
        self._tell(FeedLine(time.time(), "all", text, ""))

    def _let_go(self) -> None:
        """Delete the workloads, as their owners would."""
        for case in self._cases:
            if case.let_go_at:
                continue
            for document in case.workloads:
                self._applier.delete(document)
            case.let_go_at = time.time()
            self._say(case, case.let_go_at, "the demo deletes the workload")

    def take(self, observation: Observation) -> None:
        """Take one observation in."""
        if isinstance(observation, Decided):
            self._take_decision(observation)
        elif isinstance(observation, Called):
            self._take_call(observation)
        elif isinstance(observation, PoolsListed):
            self._take_pools(observation)

    def _take_decision(self, decided: Decided) -> None:
        case = self._by_namespace.get(decided.namespace)
        bad = decided.decision == "refuse"
        if case is None or (decided.function == "sweep" and decided.decision != "delete" and not bad):
            return
        told = f": {decided.message}" if decided.message else ""
        refusal = f"{decided.reason}{told}"
        if bad and refusal in case.refusals:
            return  # sweeps say it for as long as it lasts
        if bad:
            case.refusals.append(refusal)
        text = f"{decided.function} decided {decided.decision} because {decided.reason}{told}"
        self._say(case, decided.at, text, "bad" if bad else "")

    def _take_call(self, call: Called) -> None:
        case = self._case_of_pool.get(call.pool)
        if case is None:
            self._early_calls += [call] if call.pool else []
            return
        case.calls += 1
        if call.code == "OK" and call.method == "CreateNodePool":
            case.asked_at = case.asked_at or call.at
            self._say(case, call.at, f"GKE creates {call.pool}")
        elif call.code == "OK" and call.method == "DeleteNodePool":
            self._say(case, call.at, f"GKE deletes {call.pool}")

    def _take_pools(self, listed: PoolsListed) -> None:
        for case in self._cases:
            if case.let_go_at and not case.over and not case.pools.keys() & listed.pools.keys():
                case.given_back_at = listed.at
                self._say(case, listed.at, "all its pools are deleted", "good")
        self.pools_now = listed.pools

    def _read_pools(self, gke: httpx.Client) -> None:
        """Learn whose each pool is, from the labels that every pool of ours carries."""
        answer = gke.get(f"/v1/{CLUSTER_PATH}/nodePools").raise_for_status()
        for pool in answer.json().get("nodePools", []):
            pool_labels = pool.get("config", {}).get("labels", {})
            case = self._by_namespace.get(pool_labels.get(labels.PARENT_NAMESPACE, "")) or self._find_by_any(
                pool_labels
            )
            if case is not None and pool["name"] not in self._case_of_pool:
                self._case_of_pool[pool["name"]] = case
                case.pools[pool["name"]] = str(pool["config"].get("machineType", ""))
                early, self._early_calls = self._early_calls, []
                for call in early:
                    self._take_call(call)

    def _find_by_any(self, pool_labels: dict[str, str]) -> Case | None:
        """Return the case of a pool whose kind writes its namespace under a label of its own."""
        return next((found for value in pool_labels.values() if (found := self._by_namespace.get(value))), None)

    def _look_for_pods(self, case: Case, kubernetes: httpx.Client) -> None:
        answer = kubernetes.get(f"/api/v1/namespaces/{case.namespace}/pods").raise_for_status()
        pods = [pod for pod in answer.json()["items"] if _asks_for_accelerator(pod)]
        nodes = sum(len(_list_nodes(kubernetes, pool)) for pool in case.pools)
        whole = all(self.pools_now.get(pool) == "RUNNING" for pool in case.pools)
        # Some pods are made late, once a leader is bound: as many as its pools have nodes must run.
        if whole and 0 < nodes <= len(pods) == _count_running(pods):
            case.runs_at, case.nodes = time.time(), nodes
            message = f"all {len(pods)} pods run, on {len(case.pools)} pools with {nodes} nodes"
            self._say(case, case.runs_at, message, "good")

    def _say(self, case: Case, at: float, text: str, emphasis: str = "") -> None:
        self._told_at = time.monotonic()
        self._tell(FeedLine(at, case.who, text, emphasis))


def _asks_for_accelerator(pod: Json) -> bool:
    asked = (each.get("resources", {}).get("limits", {}) for each in pod["spec"]["containers"])
    return any(name in limits for limits in asked for name in _ACCELERATORS)


def _count_running(pods: list[Json]) -> int:
    return sum(pod["status"].get("phase") == "Running" for pod in pods)


def _list_nodes(kubernetes: httpx.Client, pool: str) -> list[str]:
    answer = kubernetes.get("/api/v1/nodes", params={"labelSelector": f"{labels.NODE_POOL}={pool}"})
    return [each["metadata"]["name"] for each in answer.raise_for_status().json()["items"]]
