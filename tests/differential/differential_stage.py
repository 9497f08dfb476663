"""One of the two clusters, and what a scene can do in it.

The fake GKE's builders and registrar make the nodes, the simulated kubelet's code the statuses of
pods, so that both clusters get the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from standins.google.gke.machines import find_machine
from standins.google.gke.names import ClusterName
from standins.google.gke.nodes import Event, NodesDown, NodesDraining, NodeUp, node_object
from standins.google.gke.pools import NodePool
from standins.google.gke.registrar import Registrar, connect
from standins.kubelet import statuses
from tests.differential.differential_observer import JOBS, JOBSETS, NODES, PODS, PREFIX, Observer
from tests.differential.differential_rest import TRACKING, is_going

Json = dict[str, Any]

CLUSTER = ClusterName("demo", "us-east5", "alpha")
ZONE, TOPOLOGY, MACHINE = "us-east5-b", "2x4", "ct6e-standard-4t"
INDEX = "batch.kubernetes.io/job-completion-index"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"


@dataclass(frozen=True, slots=True)
class Answer:
    """How the API answered one question of a scene."""

    scene: str
    question: str
    code: int
    body: Json


@dataclass
class Stage:
    """One cluster with an observer in it."""

    kubeconfig: Path
    http: httpx.Client
    observer: Observer
    answers: list[Answer] = field(default_factory=list)

    def open_scene(self, name: str) -> Scene:
        """Return a namespace of its own, which takes pods."""
        namespace = PREFIX + name
        self.http.post("/api/v1/namespaces", json={"metadata": {"name": namespace}}).raise_for_status()
        account = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        self.observer.wait("the namespace's account", lambda: self._takes_pods(account))
        return Scene(self, namespace)

    def _takes_pods(self, accounts: str) -> bool:
        """Create the account, if no controller has: the embedded cluster has none for it."""
        return self.http.post(accounts, json={"metadata": {"name": "default"}}).status_code in (201, 409)

    def play(self, events: Iterable[Event]) -> None:
        """Carry out what the fake GKE would tell about nodes."""
        asyncio.run(_play(str(self.kubeconfig), events))


@dataclass
class Scene:
    """What one scene does and waits for, in its own namespace."""

    stage: Stage
    namespace: str
    pools: dict[str, list[str]] = field(default_factory=dict)

    def path(self, kind: str, name: str = "") -> str:
        """The address of a list or of one object."""
        group = {"jobsets": "/apis/jobset.x-k8s.io/v1alpha2", "jobs": "/apis/batch/v1"}.get(kind, "/api/v1")
        return f"{group}/namespaces/{self.namespace}/{kind}" + (f"/{name}" if name else "")

    def submit(self, body: Json, kind: str = "jobsets") -> None:
        """Create an object."""
        answer = self.stage.http.post(self.path(kind), json=body)
        assert answer.is_success, f"{self.namespace}: {answer.text}"

    def patch(self, kind: str, name: str, patch: Json | list[Json], content_type: str = MERGE) -> None:
        """Change an object."""
        answer = self.stage.http.patch(self.path(kind, name), json=patch, headers={"Content-Type": content_type})
        assert answer.is_success, f"{self.namespace}: {answer.text}"

    def delete(self, kind: str, name: str, *, propagation: str = "", grace_seconds: int | None = None) -> None:
        """Delete an object; one that is gone is fine."""
        options: Json = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if propagation:
            options["propagationPolicy"] = propagation
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        answer = self.stage.http.request("DELETE", self.path(kind, name), json=options)
        assert answer.is_success or answer.status_code == 404, f"{self.namespace}: {answer.text}"

    def ask(self, question: str, method: str, path: str, body: Any = None, content_type: str = "") -> Json:
        """Record how the API answers; the answer's body is returned too."""
        headers = {"Content-Type": content_type or "application/json"}
        answer = self.stage.http.request(method, path, json=body, headers=headers)
        self.stage.answers.append(Answer(self.namespace, question, answer.status_code, answer.json()))
        return dict(answer.json())

    def add_pool(
        self, pool: str, hosts: Iterable[int] = (0, 1), *, labels: Json | None = None, taint: str = ""
    ) -> None:
        """Register hosts of a pool."""
        message = NodePool(name=f"{self.namespace}-{pool}")
        message.config.machine_type = MACHINE
        message.config.labels.update(labels or {})
        if taint:
            message.config.taints.add(key=taint, value="true", effect=1)
        machine = find_machine(MACHINE)
        assert machine is not None
        names = [f"{self.namespace}.{pool}-{host}" for host in hosts]
        self.stage.play(NodeUp(node_object(CLUSTER, message, machine, TOPOLOGY, (name, ZONE))) for name in names)
        self.pools.setdefault(pool, []).extend(names)
        self.wait(f"nodes {names} ready", lambda: all(map(self._takes_work, names)))

    def remove_pool(self, pool: str) -> None:
        """Drain and remove a pool's nodes, as GKE does."""
        names = self.pools.pop(pool)
        self.stage.play([NodesDraining(CLUSTER, pool, names), NodesDown(CLUSTER, pool, names)])

    def lose_pool(self, pool: str) -> None:
        """Remove a pool's nodes under their pods."""
        for name in self.pools.pop(pool):
            self.stage.http.delete(f"/api/v1/nodes/{name}").raise_for_status()

    def start(self, *pods: Json) -> None:
        """Report bound pods as running, as a kubelet does."""
        for pod in pods:
            self._report(pod, statuses.running(pod, _now()))

    def finish(self, *pods: Json, exit_code: int = 0) -> None:
        """Report pods as ended."""
        for pod in pods:
            self._report(pod, statuses.ended(pod, _now(), exit_code=exit_code))

    def reap(self) -> None:
        """Remove the pods that are being deleted, as a kubelet does at the end of their grace.

        Only once their Job has counted them: which of the two comes first would be a race.
        """
        for pod in self.pods():
            going = is_going(pod) and TRACKING not in pod["metadata"].get("finalizers", ())
            if going and pod["spec"].get("nodeName"):
                self.delete("pods", pod["metadata"]["name"], grace_seconds=0)

    def _report(self, pod: Json, patch: Json) -> None:
        self.patch("pods", f"{pod['metadata']['name']}/status", patch, STRATEGIC)

    def pods(self, of: str = "") -> list[Json]:
        """The pods of a JobSet (or all), by name."""
        return [pod for pod in self.stage.observer.live(PODS, self.namespace) if _is_of(pod, of)]

    def jobs(self, of: str = "") -> list[Json]:
        """The Jobs of a JobSet (or all), by name."""
        return [job for job in self.stage.observer.live(JOBS, self.namespace) if _is_of(job, of)]

    def bound(self, of: str = "") -> list[Json]:
        """The pods that have a node and are not going."""
        return [pod for pod in self.pods(of) if pod["spec"].get("nodeName") and not is_going(pod)]

    def unschedulable(self, of: str = "", saying: str = "") -> list[Json]:
        """The pods for which the scheduler has no place, and says this."""
        return [
            pod
            for pod in self.pods(of)
            for each in pod["status"].get("conditions", ())
            if each["type"] == "PodScheduled"
            and each.get("reason") == "Unschedulable"
            and saying in each.get("message", "")
        ]

    def condition(self, jobset: str, kind: str, status: str = "True") -> Json | None:
        """A JobSet's condition, when it has this status."""
        for body in self.stage.observer.live(JOBSETS, self.namespace):
            for each in body.get("status", {}).get("conditions", ()):
                if (body["metadata"]["name"], each["type"], each["status"]) == (jobset, kind, status):
                    return dict(each)
        return None

    def wait(self, what: str, look: Callable[[], Any], *, reaping: bool = False) -> None:
        """Wait for something; `reaping` lets the pods go that are being deleted meanwhile."""

        def look_and_reap() -> Any:
            if reaping:
                self.reap()
            return look()

        self.stage.observer.wait(f"{self.namespace}: {what}", look_and_reap)

    def wait_condition(self, jobset: str, kind: str, status: str = "True", *, reaping: bool = False) -> None:
        """Wait for a JobSet's condition."""
        self.wait(f"{jobset} {kind}={status}", lambda: self.condition(jobset, kind, status), reaping=reaping)

    def wait_bound(self, of: str, count: int) -> list[Json]:
        """Wait until so many pods have a node, and return them."""
        self.wait(f"{count} bound pods of {of}", lambda: len(self.bound(of)) == count)
        return self.bound(of)

    def wait_counted(self, field: str, count: int, of: str) -> None:
        """Wait until the Jobs of a JobSet have counted so many pods in a field of their status."""
        self.wait(
            f"{count} {field} of {of}",
            lambda: sum(job.get("status", {}).get(field, 0) for job in self.jobs(of)) == count,
        )

    def wait_gone(self, *names: str) -> None:
        """Wait until JobSets with their Jobs and pods are gone."""

        def gone() -> bool:
            left = {body["metadata"]["name"] for body in self.stage.observer.live(JOBSETS, self.namespace)}
            return not left & set(names) and not any(self.jobs(name) or self.pods(name) for name in names)

        self.wait(f"{names} gone", gone, reaping=True)

    def rest(self) -> None:
        """Wait until nothing moves here and nothing is left to be written, and note it."""
        self.stage.observer.rest(self.namespace)
        self.stage.observer.mark_rest(self.namespace)

    def close(self) -> None:
        """End the record of this scene, then leave the cluster as it was found."""
        self.rest()
        self.stage.observer.close_scene(self.namespace)
        jobsets = [body["metadata"]["name"] for body in self.stage.observer.live(JOBSETS, self.namespace)]
        for name in jobsets:
            self.delete("jobsets", name, propagation="Background")
        for pod in self.pods(""):
            if "ownerReferences" not in pod["metadata"]:
                self.delete("pods", pod["metadata"]["name"], grace_seconds=0)
        self.wait_gone(*jobsets)
        for pool in list(self.pools):
            self.lose_pool(pool)
        self.wait("no nodes", lambda: not self.stage.observer.live(NODES, self.namespace))

    def _takes_work(self, node: str) -> bool:
        for body in self.stage.observer.live(NODES, self.namespace):
            if body["metadata"]["name"] == node:
                taints = {taint["key"] for taint in body["spec"].get("taints", ())}
                ready = any(
                    each["type"] == "Ready" and each["status"] == "True"
                    for each in body["status"].get("conditions", ())
                )
                return ready and "node.kubernetes.io/not-ready" not in taints
        return False


def leads(pod: Json) -> bool:
    """Whether a pod is the first of its Job."""
    return bool(pod["metadata"]["labels"].get(INDEX) == "0")


def _is_of(body: Json, jobset: str) -> bool:
    labels = body["metadata"].get("labels", {})
    return not jobset or bool(labels.get("jobset.sigs.k8s.io/jobset-name") == jobset)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def _play(kubeconfig: str, events: Iterable[Event]) -> None:
    registrar = Registrar(partial(connect, kubeconfig))
    try:
        for event in events:
            registrar.note(event)
        await registrar.settled()
    finally:
        await registrar.close()
