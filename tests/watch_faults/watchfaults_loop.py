"""The whole loop, as the scenarios see it: faults, inputs and results."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from demo.loop.verification import Verifier
from demo.stack.layout import TOPIC
from demo.stack.stack import Stack
from standins.controlplane.commands import API_SERVER
from standins.controlplane.plane import ControlPlane
from tests.lives.cloud import WAIT_SECONDS, Cloud, wait_for
from tests.lives.jobset_bodies import PINNED, Job, runs
from tests.lives.jobset_bodies import jobset as build_jobset
from tests.log_records import read_records

Json = dict[str, Any]
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"
EXPORTER_PREFIX = "tpu_provisioner_exporter_"
CREATORS = 12


def sample(text: str, name: str, **labels: str) -> float:
    """The sum of a metric's samples that carry these labels, in Prometheus' text."""
    return sum(
        each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
        if each.name == name and labels.items() <= each.labels.items()
    )


@dataclass(frozen=True)
class Since:
    """How much had been said when a scenario began."""

    messages: int
    calls: int
    log_records: int
    audit_records: int


class Loop(Cloud):
    """One running stack, and its control plane."""

    def __init__(self, stack: Stack, plane: ControlPlane) -> None:
        super().__init__(stack)
        self.stack, self.plane = stack, plane
        self.namespace = ""
        self.since = Since(0, 0, 0, 0)
        self.before_jobset: Json = {}
        """What the exporter said of itself before the cluster had JobSet."""

    def begin(self, namespace: str, *, exporter_ready: bool = True) -> None:
        """Begin a scenario in its own namespace; if so told, once both kinds have been listed."""
        if exporter_ready:
            ready = f"{self.stack.addresses.exporter}/readyz"
            wait_for("the exporter", lambda: httpx.get(ready).is_success)
        self.since = Since(0, 0, 0, 0)
        self.since = Since(
            len(self.published()), len(self.calls()), len(self.exporter_log()), len(self.audit_log())
        )
        self.namespace = namespace
        self.create_namespace(namespace)

    # What goes in.

    def create_many(self, things: list[tuple[str, Json]]) -> None:
        """Create objects, each in its list, as fast as the server takes them."""
        with ThreadPoolExecutor(CREATORS) as pool:
            list(pool.map(lambda thing: self.create(*thing), things))

    def clear_pods(self) -> None:
        """Delete all pods of the scenario."""
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        self.kubernetes.delete(path, params={"gracePeriodSeconds": "0"}, timeout=60).raise_for_status()

    def submit(self, name: str, *, slices: int = 1, run_seconds: float = 180) -> None:
        self.create(JOBSETS.format(self.namespace), jobset(name, slices=slices, run_seconds=run_seconds))

    def delete_jobset(self, name: str, propagation: str = "Background") -> None:
        self.delete(f"{JOBSETS.format(self.namespace)}/{name}", propagation)

    # What strikes it.

    @contextmanager
    def paused(self, name: str) -> Iterator[None]:
        """Keep a process of the stack from running, as a machine that hangs would."""
        pid = self.pid(name)
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def cut_off(self) -> None:
        """Break every connection to the API server: it is killed and started again."""
        self.plane.kill(API_SERVER)
        self.plane.start(API_SERVER)
        # It may be ready before it serves them, and a watch that gets 404 lists again.
        wait_for("served JobSets", lambda: self.kubernetes.get(JOBSETS.format("default")).is_success)

    def lose_history(self) -> None:
        """Make all versions until now impossible to resume from, and break every connection.

        etcd is compacted by the API server's own timer. The watch cache, from which watches are
        resumed, is another history and begins anew with the API server.
        """
        present = self.kubernetes.get("/api/v1/namespaces").json()["metadata"]["resourceVersion"]
        query = {"resourceVersion": present, "resourceVersionMatch": "Exact"}
        wait_for(
            "the compaction",
            lambda: self.kubernetes.get("/api/v1/namespaces", params=query).status_code == httpx.codes.GONE,
        )
        self.cut_off()

    # What comes out.

    def phase(self, name: str) -> str:
        """The terminal condition of a JobSet, or what it lacks."""
        found = self.get(f"{JOBSETS.format(self.namespace)}/{name}")
        if found is None:
            return "gone"
        conditions = found.get("status", {}).get("conditions", [])
        ended = [each["type"] for each in conditions if each["status"] == "True"]
        return next((each for each in ended if each in ("Completed", "Failed")), "")

    def ends_as(self, phase: str, name: str) -> bool:
        return self.phase(name) == phase

    def pods(self, jobset: str) -> list[Json]:
        selector = f"jobset.sigs.k8s.io/jobset-name={jobset}"
        return self.items(f"/api/v1/namespaces/{self.namespace}/pods", labelSelector=selector)

    def runs(self, jobset: str) -> bool:
        """Tell whether all pods of a JobSet run."""
        phases = {pod["status"].get("phase") for pod in self.pods(jobset)}
        return phases == {"Running"}

    def published(self) -> list[Json]:
        """The bodies of the messages published in this scenario."""
        return self.messages(TOPIC)[self.since.messages :]

    def has_published(self, observed: str, name: str) -> bool:
        """Tell whether a observation of an object whose name begins so has been published."""
        return any(each["observed"] == observed and each["name"].startswith(name) for each in self.of_here())

    def of_here(self) -> list[Json]:
        return [each for each in self.published() if each["namespace"] == self.namespace]

    def calls(self) -> list[Json]:
        """The calls of this scenario to the GKE API."""
        return super().calls()[self.since.calls :]

    def accepted(self, method: str) -> list[str]:
        """The pools of the calls that GKE accepted, one entry per acceptance."""
        return [each["pool"] for each in self.calls() if (each["method"], each["code"]) == (method, "OK")]

    def created(self) -> list[str]:
        return self.accepted("CreateNodePool")

    def deleted(self) -> list[str]:
        return self.accepted("DeleteNodePool")

    def pid(self, name: str) -> int:
        return next(each.pid for each in self.stack.supervisor.states() if each.name == name)

    def exporter_metric(self, name: str, **labels: str) -> float:
        text = httpx.get(f"{self.stack.addresses.exporter}/metrics").raise_for_status().text
        return sample(text, EXPORTER_PREFIX + name, **labels)

    def restarts(self, reason: str) -> dict[str, float]:
        """How often each watch began anew for a reason, ever."""
        return {
            name: self.exporter_metric("watch_restarts_total", resource=name, reason=reason)
            for name in ("pods", "jobsets")
        }

    def exporter_log(self) -> list[Json]:
        return read_records(self.stack.layout.log("exporter"), among_text=True)[self.since.log_records :]

    def listings(self) -> dict[str, int]:
        """How often the exporter has listed each kind in full, by its own log."""
        listed = [each["resource"] for each in self.exporter_log() if each["message"] == "listed"]
        return {name: listed.count(name) for name in ("pods", "jobsets")}

    def interruptions(self) -> list[str]:
        """What has interrupted the exporter's watches, by its own log."""
        ended = [each for each in self.exporter_log() if each["message"] == "watch interrupted"]
        return [f"{each['resource']}: {each['reason']}: {each['problem']}" for each in ended]

    def audit_log(self) -> list[Json]:
        """The lists and watches that the API server was asked for, by its own account."""
        return read_records(self.plane.layout.audit_log)[self.since.audit_records :]

    def problems(self, jobsets: list[str]) -> list[str]:
        """What is not as it should be once all is over."""
        with Verifier(self.stack.addresses) as verifier:
            return verifier.verify([(self.namespace, each) for each in jobsets], settle_seconds=WAIT_SECONDS)


def jobset(name: str, *, slices: int, run_seconds: float) -> Json:
    """A JobSet of slices of one machine each: the cheapest demand there is.

    Each slice runs on its own pool only, so that each leader is a demand, even if it is late.
    """
    job = Job(name="s", replicas=slices, topology="2x2", does=runs(run_seconds))
    return build_jobset(name, job, annotations=PINNED)
