"""The world of one story: all that is outside of the functions, and the messages between."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from random import Random

import msgspec

from exporter.observed_objects import ObservedPods, ObservedWorkloads, WatchedPod
from shared.edges.kubernetes import ObjectMeta
from shared.engine.outside import Role
from shared.kinds.table import KINDS
from shared.model.messages import Event, EventType
from shared.model.times import format_time
from tests.audit_entries import an_entry, as_message
from tests.builders import a_push
from tests.simulation.sim_cluster import SimCluster, SimPod
from tests.simulation.sim_faults import MESSAGES, FaultTable, Invocation, PoolRead
from tests.simulation.sim_functions import Functions
from tests.simulation.sim_judge import Judge
from tests.simulation.sim_pools import GkePools
from tests.simulation.sim_scenarios import CLUSTERS, START, ZONE, Scenario
from tests.simulation.sim_workloads import Workload
from tests.simulation.virtual_time import VirtualTime

BACKOFF_SECONDS = (10.0, 600.0)  # of the subscriptions
ATTEMPTS_MAX = 20
"""After so many pushes the policy keeps a message, and the ticks answer what it was about."""
_OK = range(200, 300)


@dataclass(slots=True)
class Sent:
    """One message, from its publishing to its answer."""

    role: Role
    body: bytes
    text: str
    attempts: int = 0
    answered: bool = False


class World:
    """Everything that is true in one story at one moment."""

    def __init__(self, scenario: Scenario, *, tell: Callable[[str], None] | None = None) -> None:
        self.scenario, self.rng = scenario, Random(scenario.seed)
        self.log_rng = Random(f"{scenario.seed} audit log")
        self.time = VirtualTime(START)
        self._tell = tell
        self.changes = 0
        self.settled_at = 0.0
        """When the story came to rest: nothing fails any more."""
        self.ticks: dict[str, list[float]] = {}
        """When ticks of each cluster began."""
        self.keeps_history = any(fault.kind == "stale" for fault in scenario.faults)
        self.cluster_names = CLUSTERS[: scenario.clusters]
        self.faults = FaultTable(self.time, self.rng, self.tell, scenario.latency_seconds)
        self.judge = Judge(self)
        self.gke = GkePools(self, {name: {} for name in self.cluster_names})
        self.clusters = {name: SimCluster(self, name) for name in self.cluster_names}
        self.exporters = {name: SimExporter(self, name) for name in self.cluster_names}
        self.functions = Functions(self)
        self.sent: list[Sent] = []
        self._uids = 0

    # --- words for others -------------------------------------------------------------------------

    def tell(self, text: str) -> None:
        if self._tell is not None:
            who = f"{self.run.label}: " if self.run.label else ""
            self._tell(f"  {self.time.now - START:8.1f} s  {who}{text}")

    @property
    def run(self) -> Invocation:
        """The run of a function that goes on now, or a new one of nobody."""
        run = self.time.get_owner()
        return run if isinstance(run, Invocation) else Invocation("", 0, self.time.now)

    def note_change(self) -> None:
        self.changes += 1
        for cluster in self.clusters.values():
            cluster.autoscaler.wake()

    def note_pool_read(self, cluster: str, name: str) -> None:
        """Note that a function reads a pool now; without a name, all of them."""
        now = self.time.now
        self.run.pool_reads[cluster, name] = PoolRead(now, now - self.faults.stale_seconds)

    def note_look(self, cluster: str, name: str) -> None:
        """Note that a function reads the pods on a node now, or that a pool has no node."""
        self.run.looks[cluster, name] = self.time.now

    def make_uid(self, prefix: str) -> str:
        self._uids += 1
        return f"{prefix}-{self._uids}"

    def draw_termination(self) -> float:
        """Return how long a pod takes to end: mostly seconds, sometimes longer than it should."""
        drawn = self.rng.random()
        if drawn < 0.8:
            return 1 + 29 * self.rng.random()
        return 60 + 500 * self.rng.random() if drawn < 0.96 else 1500.0

    def list_zones(self, made: Workload) -> list[str]:
        """Return the zones that a workload's pools may be in."""
        return [f"us-east5-{each}" for each in "abc"[: self.scenario.candidates] if not made.spot] or [ZONE]

    # --- messages ---------------------------------------------------------------------------------

    def publish(self, cluster: str, event: Event) -> None:
        """Send one message on its way; the subscriptions filter by its type."""
        role = Role.PROVISION if event.type == EventType.DEMAND else Role.COLLECT
        self.send(cluster, Sent(role, a_push(event), f"{event.cause} {event.subject}"))

    def end_operation(self, cluster: str, pool: str, act: str, error: str = "") -> None:
        """Write the end of an operation to the log, which loses, doubles and delays entries."""
        entry = an_entry(act, pool=pool, cluster=cluster, status={"code": 8, "message": error} if error else None)
        body = a_push(as_message(entry))
        copies = self.log_rng.choices((0, 1, 2), (2, 7, 1))[0]
        for role in Role:
            sent = Sent(role, body, f"{act} of {pool} has ended")
            sent.answered = not copies
            self.sent.append(sent)
            for _ in range(copies):
                rng = self.log_rng
                seconds = 1 + 4 * rng.random() if rng.random() < 0.8 else 600 * rng.random()
                self.time.after(seconds, partial(self.deliver, sent))

    def send(self, cluster: str, sent: Sent) -> None:
        """Send one message, or what a fault makes of it."""
        fault = self.faults.take(cluster, MESSAGES)
        self.sent.append(sent)
        if fault is not None:
            self.tell(f"FAULT {fault.kind} of the message: {sent.text}")
        if fault is not None and fault.kind == "lose":
            sent.answered = True
            return
        seconds = fault.seconds if fault is not None and fault.kind == "delay" else 0.0
        seconds += 0.1 + self.rng.random() * 2
        self.time.after(seconds, lambda: self.deliver(sent))
        if fault is not None and fault.kind == "duplicate":
            self.time.after(seconds + fault.seconds * self.rng.random(), lambda: self.deliver(sent))

    def deliver(self, sent: Sent) -> None:
        """Push one message to its function, and again if that does not answer."""
        sent.attempts += 1
        attempt = sent.attempts

        def answered(status: int) -> None:
            if status in _OK:
                sent.answered = True
            elif not sent.answered:
                self._redeliver(sent, attempt)

        self.functions.push(sent.role, sent.body, sent.text, answered)

    def _redeliver(self, sent: Sent, attempt: int) -> None:
        if attempt >= ATTEMPTS_MAX:
            self.judge.see_dead_letter(sent.text)
            return
        shortest, longest = BACKOFF_SECONDS
        seconds = min(longest, shortest * 2 ** min(attempt - 1, 8)) * (0.8 + 0.4 * self.rng.random())
        self.time.after(seconds, lambda: None if sent.answered else self.deliver(sent))

    def replay(self) -> None:
        """Deliver every message of the story once more, in any order."""
        again = list(self.sent)
        self.rng.shuffle(again)
        for sent in again:
            self.time.after(self.rng.random() * 20, partial(self.deliver, sent))

    def tick(self) -> None:
        """Let the scheduler call both functions for each cluster."""
        for cluster in self.cluster_names:
            self.ticks.setdefault(cluster, []).append(self.time.now)
            for role in Role:
                self.functions.tick(role, cluster)


class SimExporter:
    """One cluster's exporter, which may be down."""

    def __init__(self, world: World, cluster: str) -> None:
        self._world, self._cluster = world, cluster
        self.up = True
        self._start()

    def _start(self) -> None:
        self._pods = {kind.name: ObservedPods(self._cluster, kind) for kind in KINDS}
        self._workloads = {kind.name: ObservedWorkloads(self._cluster, kind) for kind in KINDS[:-1]}

    def stop(self) -> None:
        """Let it end, with all that it remembers and keeps: a new one reports that again."""
        self.up = False

    def start(self) -> None:
        """Let a new one start: it lists everything."""
        if self.up:
            return
        self.up = True
        self._start()
        truth = self._world.clusters[self._cluster]
        for made in list(truth.workloads.values()):
            self.see_workload(made)
        for pod in list(truth.waiting.values()):
            self.see_pod(pod)

    def see_pod(self, pod: SimPod) -> None:
        """Show a pod without a node."""
        if self.up and pod.kind:
            self._publish(self._pods[pod.kind.name].see(build_pod(pod)))

    def lose_pod(self, pod: SimPod) -> None:
        if self.up and pod.kind:
            gone = WatchedPod(metadata=ObjectMeta(uid=pod.view.uid))
            self._publish(self._pods[pod.kind.name].lose(gone))

    def see_workload(self, made: Workload) -> None:
        if self.up and made.kind in self._workloads:
            self._publish(self._workloads[made.kind].see(made.view))

    def lose_workload(self, made: Workload) -> None:
        if self.up and made.kind in self._workloads:
            self._publish(self._workloads[made.kind].lose(made.view))

    def _publish(self, events: Iterable[Event]) -> None:
        for event in events:
            self._world.publish(self._cluster, event)


def build_pod(pod: SimPod) -> WatchedPod:
    """Return a pod as the API has it."""
    since = format_time(pod.view.unschedulable_since)
    word = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": since}
    body = msgspec.json.encode(pod.body | {"status": {"conditions": [word] if since else []}})
    return msgspec.json.decode(body, type=WatchedPod)
