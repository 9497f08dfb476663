"""The world of one scenario: everything outside of the product, and the runs of its functions."""

import base64
import dataclasses
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

import msgspec
from greenlet import GreenletExit
from shared.engine.places import Places

from shared.deliver import deliver, deliver_sweep
from shared.engine.outside import Ports
from shared.model.messages import Event, EventType, Message, format_message
from shared.model.priorities import CapacityPolicy, NodeSource, Priority, ReservationRef
from shared.settings import ClusterSettings, Settings
from tests.audit_entries import an_entry, as_message
from tests.simulation.sim_cluster import SimCluster
from tests.simulation.sim_exporter import SimExporter
from tests.simulation.sim_faults import Crash, FaultTable, Invocation
from tests.simulation.sim_filling import FillJudge
from tests.simulation.sim_idle import judge_idle_pools
from tests.simulation.sim_judge import Judge
from tests.simulation.sim_pools import GkePools
from tests.simulation.sim_ports import ClusterPort, SimClock
from tests.simulation.sim_scenario import CLUSTERS, START, ZONE, Scenario
from tests.simulation.sim_workloads import Workload
from tests.simulation.virtual_time import VirtualTime

BACKOFF_SECONDS = (10.0, 600.0)
"""Of the subscriptions, the shortest a little longer than in infra/terraform."""
ATTEMPTS_MAX = 40
_OK = range(200, 300)


@dataclass(slots=True)
class Sent:
    """One message, from its publishing to its answer."""

    function: str
    body: bytes
    text: str
    attempts: int = 0
    answered: bool = False


def _build_settings(scenario: Scenario) -> Settings:
    """Return the settings of a scenario's deployment."""
    zones = tuple(f"us-east5-{letter}" for letter in "abc"[: scenario.candidates])
    sources, names = scenario.sources, CLUSTERS[: scenario.clusters]
    ways = tuple(map(_build_priority, zones, sources)) if sources else (Priority(zones=zones),)
    return Settings(
        clusters={name: ClusterSettings(endpoint="https://sim", zone=ZONE) for name in names},
        sweep_deletions_max=scenario.cap,
        limit_chips=scenario.limit_chips,
        capacity_policies=(CapacityPolicy(priorities=ways),) if zones else (),
        autoscaled_pools_max=scenario.autoscaled_max,
        idle_seconds=scenario.idle_seconds,
    )


def _build_priority(zone: str, source: str) -> Priority:
    """Return the item of a list for one zone."""
    if source == "reservation":
        return Priority(zones=(zone,), reservations=(ReservationRef(name=f"held-{zone[-1]}"),))
    return Priority(zones=(zone,), nodes_from=NodeSource(source) if source else None)


class World:
    """Everything that is true in one scenario at one moment."""

    def __init__(self, scenario: Scenario, *, tell: Callable[[str], None] | None = None) -> None:
        self.scenario, self.rng = scenario, Random(scenario.seed)
        self.log_rng = Random(f"{scenario.seed} audit log")
        self.time = VirtualTime(START)
        self._tell = tell
        self.changes = 0
        self.swept_at = 0.0
        """When the last sweep began."""
        self.settled = False
        """Whether the scenario has come to rest: nothing fails any more."""
        self.keeps_history = any(fault.kind == "stale" for fault in scenario.faults)
        self.cluster_names = CLUSTERS[: scenario.clusters]
        self.faults = FaultTable(self.time, self.rng, self.tell)
        self.judge = Judge(self)
        self.fills = FillJudge(self)
        self.gke = GkePools(self, {name: {} for name in self.cluster_names})
        self.clusters = {name: SimCluster(self, name) for name in self.cluster_names}
        self.exporters = {name: SimExporter(self, name) for name in self.cluster_names}
        self.sent: list[Sent] = []
        self.running = 0
        self._uids = 0
        self.ports = Ports(
            settings=_build_settings(scenario),
            pools=self.gke,
            clusters={name: ClusterPort(self, name) for name in self.cluster_names},
            clock=SimClock(self),
            threads=self.time.run_side_by_side,
        )
        self._ports_of: dict[str, Ports] = {}
        """By function, since each one runs in processes of its own."""

    def _get_ports(self, function: str) -> Ports:
        if function not in self._ports_of:
            self._ports_of[function] = dataclasses.replace(self.ports, places=Places())
        return self._ports_of[function]

    # --- words for others -------------------------------------------------------------------------

    def tell(self, text: str) -> None:
        """Write a line of the scenario, if a person reads it."""
        if self._tell is not None:
            run = self.time.get_owner()
            who = f"{run.label}: " if isinstance(run, Invocation) else ""
            self._tell(f"  {self.time.now - START:8.1f} s  {who}{text}")

    def note_change(self) -> None:
        """Note that the truth has changed."""
        self.changes += 1
        for cluster in self.clusters.values():
            cluster.autoscaler.wake()

    def make_uid(self, prefix: str) -> str:
        """Return a UID that nothing else has."""
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

    def find_answering(self, cluster: str) -> SimCluster:
        """Return the cluster that answers under a cluster's endpoint."""
        run = self.time.get_owner()
        swapped = run.swapped if isinstance(run, Invocation) else self.faults.swapped
        if swapped and len(self.cluster_names) > 1:
            cluster = next(name for name in self.cluster_names if name != cluster)
        return self.clusters[cluster]

    # --- messages ---------------------------------------------------------------------------------

    def publish(self, cluster: str, event: Event) -> None:
        """Send one message on its way."""
        function = "provision" if event.type == EventType.DEMAND else "collect"
        text = f"{event.observed} {event.subject}"
        self.send(cluster, Sent(function, build_push(format_message(event)), text))

    def end_operation(self, cluster: str, pool: str, act: str, error: str = "") -> None:
        """Write the end of an operation to the log, which loses, doubles and delays entries."""
        entry = an_entry(act, pool=pool, cluster=cluster, status={"code": 8, "message": error} if error else None)
        sent, rng = Sent("settle", build_push(as_message(entry)), f"{act} of {pool} has ended"), self.log_rng
        self.sent.append(sent)
        copies = rng.choices((0, 1, 2), (2, 7, 1))[0]
        sent.answered = not copies
        for _ in range(copies):
            seconds = 1 + 4 * rng.random() if rng.random() < 0.8 else 600 * rng.random()
            self.time.after(seconds, lambda: self.deliver(sent))

    def send(self, cluster: str, sent: Sent) -> None:
        """Send one message, or what a fault makes of it."""
        fault = self.faults.take_message_fault(cluster)
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
        """Push one message to its function; push it again where that does not answer."""
        sent.attempts += 1
        attempt = sent.attempts
        run = self._begin(f"{sent.function} ({sent.text})")

        def work() -> None:
            status = 0
            with self._judged(run, sent.function):
                status = deliver(sent.function, sent.body, self._get_ports(sent.function)).status
            self.tell(f"answers {status or 'nothing'}")
            if status in _OK:
                sent.answered = True
            elif not sent.answered:
                self._redeliver(sent, attempt)

        self.time.spawn(work, run)

    def _redeliver(self, sent: Sent, attempt: int) -> None:
        if attempt >= ATTEMPTS_MAX:
            return
        shortest, longest = BACKOFF_SECONDS
        seconds = min(longest, shortest * 2 ** min(attempt, 8)) * (0.8 + 0.4 * self.rng.random())
        self.time.after(seconds, lambda: None if sent.answered else self.deliver(sent))

    def replay(self) -> None:
        """Deliver every message of the scenario once more, in any order."""
        again = list(self.sent)
        self.rng.shuffle(again)
        for sent in again:
            self.time.after(self.rng.random() * 20, functools.partial(self.deliver, sent))

    # --- the sweep --------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Let the scheduler call the sweep."""
        run = self._begin("sweep")
        run.sweeping = True
        began = self.swept_at = self.time.now

        def work() -> None:
            with self._judged(run, "sweep"):
                answer, counts = deliver_sweep(self._get_ports("sweep"))
                clean = not counts.get("errors")
                if self.settled and clean and not run.swapped and "stale" not in run.notes:
                    judge_idle_pools(self, began)
                self.fills.see_sweep(run, clean=clean)
                self.tell(f"answers {answer.status}")

        self.time.spawn(work, run)

    @contextmanager
    def _judged(self, run: Invocation, function: str) -> Iterator[None]:
        """Let a function work, and judge how it ends."""
        try:
            yield
        except Crash:
            self.tell("crashes")
        except GreenletExit:
            raise
        except Exception as error:  # noqa: BLE001 -- this is what the judge looks for
            self.judge.report("no exception", f"{function} raised {error!r}")
        self.running -= 1
        for bug in run.bugs:
            self.judge.report("no exception", f"{run.label.split()[0]}: {bug}")

    def _begin(self, label: str) -> Invocation:
        self.running += 1
        version = self.rng.randrange(self.scenario.versions) if self.scenario.versions > 1 else 0
        return Invocation(label, version, self.time.now, swapped=self.faults.swapped)


class _Pushed(msgspec.Struct, rename="camel"):
    data: str
    attributes: dict[str, str]
    message_id: str = "1"


class _Envelope(msgspec.Struct, rename="camel"):
    message: _Pushed
    subscription: str = "projects/p/subscriptions/s"
    delivery_attempt: int = 1


def build_push(message: Message) -> bytes:
    """Return the body of a push that carries a message."""
    data = base64.b64encode(message.data).decode()
    return msgspec.json.encode(_Envelope(_Pushed(data, message.attributes)))
