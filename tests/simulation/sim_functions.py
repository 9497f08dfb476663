"""The two functions of a story as production runs them: instances, memories, releases, ports."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar
from unittest.mock import patch

from greenlet import GreenletExit
from msgspec.structs import replace

from shared.capacity_texts import CapacityPolicy
from shared.deliver import deliver, deliver_tick
from shared.engine.budget import open_books
from shared.engine.outside import Ports, Role
from shared.engine.threads import Crew, attempt
from shared.kinds.table import is_pod_of, select_pods_of
from shared.model import labels
from shared.model.errors import OutOfTime
from shared.model.names import ObjectName
from shared.model.needs import Reservation, Tier, Way
from shared.model.pools import PoolNode
from shared.model.workloads import Disk, Namespace, Notice, PodView, WorkloadView
from shared.needs import pods, wanted
from shared.settings import ClusterSettings, Settings
from tests.simulation.sim_cluster import SimCluster, SimPod
from tests.simulation.sim_faults import Crash, Invocation
from tests.simulation.sim_scenarios import CLUSTERS, ZONE, Rollout, Scenario
from tests.simulation.virtual_time import VirtualTime

if TYPE_CHECKING:
    from tests.simulation.sim_world import World

T = TypeVar("T")
OBJECTS_MAX = 100_000  # after so many new objects garbage is collected: some stories' worth
OWN_NAMESPACE = "tpu-provisioner"
BEGIN_SECONDS = 60.0
"""For so long a new instance counts neither the other one's creates nor all of its deletions."""


class SimClock:
    """`shared.model.times.Clock` of one story."""

    def __init__(self, time: VirtualTime) -> None:
        self.now, self.pause = lambda: time.now, time.pause


class ClusterPort:
    """`shared.engine.outside.Cluster` of one story, which says what each method does."""

    def __init__(self, world: World, name: str) -> None:
        self._world, self._name = world, name

    def _begin(self, method: str) -> SimCluster:
        """Take the time of a call and return the cluster that answers it."""
        self._world.faults.read(method, self._name)
        return self._world.clusters[self._name]

    def get_workload(self, kind: str, namespace: str, name: str) -> WorkloadView | None:
        made = self._begin("get_workload").workloads.get((kind, name))
        return made.view if made else None

    def list_workloads(self, kind: str, names: Collection[tuple[str, str]]) -> list[WorkloadView]:
        workloads = self._begin("list_workloads").workloads.values()
        views = (each.view for each in workloads)
        return [view for view in views if view.kind == kind and (view.namespace, view.name) in names]

    def explain_parent(self, parent: ObjectName) -> str:
        """Return nothing: no workload of a story has a parent."""
        return ""

    def find_disk(self, namespace: str, claim: str) -> Disk | None:
        """Return nothing: no pod of a story has claims."""
        return None

    def get_namespace(self, name: str) -> Namespace | None:
        """Return a namespace, which says of which cluster it is, with the label that stops us."""
        truth, scenario = self._begin("get_namespace"), self._world.scenario
        mode = ""
        if name == OWN_NAMESPACE:
            mode = truth.stop_mode or ("" if scenario.mode == "active" else scenario.mode)
        marks = {labels.MODE: mode} if mode else {}
        return Namespace(uid=f"{name}-of-{truth.name.rpartition('/')[2]}", labels=marks)

    def list_workload_pods(self, workload: WorkloadView) -> list[PodView]:
        selector = select_pods_of(workload)
        pods = (pod.view for pod in self._begin("list_workload_pods").pods.values())
        return [pod for pod in pods if is_selected(selector, pod) and is_pod_of(workload, pod)]

    def list_accelerator_pods(self) -> Iterable[PodView]:
        pods = self._begin("list_accelerator_pods").pods.values()
        return [pod.view for pod in pods if pod.units and not pod.view.finished]

    def list_nodes(self, pools: Sequence[str] = ()) -> list[PoolNode]:
        nodes = self._begin("list_nodes").nodes.values()
        listed = [node for node in nodes if (node.pool.name in pools if pools else node.pool.owner)]
        for name in {*pools} - {node.pool.name for node in listed}:
            self._world.note_look(self._name, name)
        return [node.view for node in listed]

    def list_bound_pods(self, node: str) -> list[PodView]:
        """Return the unfinished pods on a node, and remember the look at it."""
        truth = self._begin("list_bound_pods")
        if node not in truth.nodes:
            return []
        self._world.note_look(self._name, node)
        return [self._view(pod) for pod in truth.nodes[node].pods]

    def mark_idle(self, node: str, since: float | None, *, closed: bool = False) -> None:
        with self._world.faults.changing("mark_idle", self._name):
            truth = self._world.clusters[self._name]
            marked = truth.nodes.get(node)
            if marked is not None:
                opens = since is None
                self._world.judge.see_change("open" if opens else "mark", marked.pool, adds=opens)
                truth.mark(marked, since, closed=closed)

    def write_notice(self, notice: Notice) -> None:
        with self._world.faults.changing("write_notice", self._name):
            self._world.tell(f"tells {notice.subject.kind} {notice.subject.name}: {notice.message}")
            self._world.clusters[self._name].write_event(notice)

    def _view(self, pod: SimPod) -> PodView:
        if pod.deleting_since is None:
            return pod.view
        return replace(pod.view, deleting_since=pod.deleting_since + self._world.scenario.skew_seconds)


def is_selected(selector: str, pod: PodView) -> bool:
    """Return whether a selector of ``key``, ``!key``, ``key=value`` takes a pod; empty does not."""
    for term in selector.split(","):
        key, equals, value = term.removeprefix("!").partition("=")
        answer = pod.template.labels.get(key)
        if (answer == value if equals else answer is not None) == term.startswith("!"):
            return False
    return True


class SimCrew(Crew):
    """Runs tasks side by side in virtual time."""

    def __init__(self, time: VirtualTime) -> None:
        super().__init__()
        self.time = time

    def fork(self, task: Callable[[], T]) -> Callable[[], T]:
        return self.time.fork(task)

    def run(self, tasks: Sequence[Callable[[], T]], *, seconds: float) -> list[T | Exception]:
        until = self.time.now + seconds
        works = [partial(self._begin, task, until) for task in tasks]
        if len(works) == 1:  # nothing to interleave: no task of its own
            return [works[0]()]
        return [answer() for answer in list(map(self.fork, works))]

    def _begin(self, task: Callable[[], T], until: float) -> T | Exception:
        return attempt(task) if self.time.now < until else OutOfTime("the time is over")


@dataclass(slots=True, eq=False)
class Instance:
    ports: Ports
    release: int = 0


class Functions:
    """The instances of both functions, and how they are woken."""

    def __init__(self, world: World) -> None:
        self._world = world
        scenario, differing = world.scenario, build_settings(world.scenario, world.scenario.collect_settings)
        self.live: dict[Role, list[Instance]] = {
            Role.PROVISION: [self._start(Role.PROVISION, 0, build_settings(scenario))],
            Role.COLLECT: [self._start(Role.COLLECT, scenario.collect_release, differing)],
        }
        self.ticks_to_repeat = 0
        """How many ticks left something to the next one."""
        self.several_until = dict.fromkeys(Role, 0.0)
        """Until when a function has several instances, or had them a moment ago."""

    def _start(self, role: Role, release: int, settings: Settings) -> Instance:
        world = self._world
        queues = {name: each.kueue for name, each in world.clusters.items() if world.scenario.quota_pods}
        ports = Ports(
            settings=settings,
            pools=world.gke,
            adds=world.gke if role == Role.PROVISION else None,
            takes=world.gke if role == Role.COLLECT else None,
            clusters={name: ClusterPort(world, name) for name in world.cluster_names},
            queues=queues,
            clock=SimClock(world.time),
            books=open_books(settings),
            crew=SimCrew(world.time),
        )
        return Instance(ports, release)

    def roll_out(self, rollout: Rollout) -> None:
        """Start another instance of a function; the first one ends after a while."""
        role, time = Role(rollout.role), self._world.time
        self._world.tell(f"ROLLOUT {rollout}")
        before, settings = list(self.live[role]), build_settings(self._world.scenario, rollout.settings)
        self.live[role].append(self._start(role, rollout.release, settings))
        self.several_until[role] = max(self.several_until[role], time.now + rollout.seconds + 1200)

        def end() -> None:
            self.live[role] = [each for each in self.live[role] if each not in before] or self.live[role]

        time.after(rollout.seconds, end)

    def settle(self) -> None:
        """Let each function have one instance, with the same release and settings.

        Where that is a new one, it is a second one until the requests of the other have ended: each
        counts its own creates, and its own deletions of this minute.
        """
        settings = build_settings(self._world.scenario)
        for role in Role:
            newest = self.live[role][-1]
            if newest.release or newest.ports.settings != settings:
                newest = self._start(role, 0, settings)
                until = self._world.time.now + BEGIN_SECONDS
                self.several_until[role] = max(self.several_until[role], until)
            self.live[role] = [newest]

    def restart(self, role: Role, instance: Instance) -> None:
        """Let an instance that crashed begin anew, without its memory."""
        live = self.live[role]
        if instance in live:
            live[live.index(instance)] = self._start(role, instance.release, instance.ports.settings)

    def push(self, role: Role, body: bytes, label: str, answered: Callable[[int], None]) -> None:
        self._run(role, f"{role} ({label})", lambda ports: deliver(role, body, ports).status, answered)

    def tick(self, role: Role, cluster: str) -> None:
        def work(ports: Ports) -> int:
            status = deliver_tick(role, cluster, ports)[0].status
            self.ticks_to_repeat += status != 200
            return status

        self._run(role, f"{role} tick", work, lambda status: None)

    def _run(self, role: Role, label: str, work: Callable[[Ports], int], answered: Callable[[int], None]) -> None:
        world = self._world
        instance = world.rng.choice(self.live[role]) if len(self.live[role]) > 1 else self.live[role][0]
        run = Invocation(label, instance.release, world.time.now)

        def task() -> None:
            status = 0
            try:
                status = work(instance.ports)
            except Crash:
                world.tell("crashes")
                self.restart(role, instance)
            except GreenletExit:
                raise
            except Exception as error:  # noqa: BLE001 -- this is what the judge looks for
                world.judge.report("no exception", f"{role} raised {error!r}")
            for bug in run.bugs:
                world.judge.report("no exception", f"{role}: {bug}")
            world.tell(f"answers {status or 'nothing'}")
            answered(status)

        world.time.spawn(task, run)


def build_settings(scenario: Scenario, choice: int = 0) -> Settings:
    """Return one of the settings of a scenario's deployment: an operator may have edited them."""
    zones = tuple(f"us-east5-{letter}" for letter in "abc"[: scenario.candidates])
    if choice == 1:
        zones = zones[::-1]
    tiers = scenario.tiers or ("",) * len(zones)
    ways = tuple(map(_build_way, zones, tiers))
    return Settings(
        clusters={
            name: ClusterSettings(endpoint="https://sim", zone=ZONE) for name in CLUSTERS[: scenario.clusters]
        },
        deletions_per_minute_max=scenario.cap,
        limit_chips=scenario.limit_chips,
        capacity_policies=(CapacityPolicy(ways=ways),) if zones else (),
        idle_seconds=scenario.idle_seconds if choice != 2 else scenario.idle_seconds // 2,
        node_disk_size_gb=200 if choice == 2 else 0,
        kueue_admission_check=bool(scenario.quota_pods),
    )


def _build_way(zone: str, tier: str) -> Way:
    if tier == "reservation":
        return Way(Tier.RESERVATION, zone, Reservation(name=f"held-{zone[-1]}"))
    return Way(Tier.FLEX_START if tier == "flex-start" else Tier.ON_DEMAND, zone)


@contextmanager
def prepared() -> Iterator[None]:
    """Prepare this process for stories, and undo it: no logs, and releases with own keys.

    What a process has loaded is no garbage, and a story leaves little before its end.
    """
    if isinstance(pods.make_key, _ReleaseKey):
        yield  # it is prepared
        return
    make_key, watch, log = _ReleaseKey(pods.make_key), _Bugs(), logging.getLogger("functions")
    disabled, propagates, thresholds = logging.root.manager.disable, log.propagate, gc.get_threshold()
    log.addHandler(watch)
    log.propagate = False
    logging.disable(logging.ERROR - 1)
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_MAX)
    try:
        with (
            patch.object(pods, "make_key", make_key),
            patch.object(wanted, "make_key", make_key),
            patch.object(cached_property, "__get__", _read_once),
        ):
            yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
        logging.disable(disabled)
        log.propagate = propagates
        log.removeHandler(watch)


def _read_once(field: Any, instance: Any, _owner: object = None) -> Any:
    """Stands for the method of `cached_property` without its lock, as it is from Python 3.12 on."""
    if instance is None:
        return field
    return instance.__dict__.setdefault(field.attrname, field.func(instance))


@dataclass(frozen=True, slots=True)
class _ReleaseKey:
    """The key of a need, which is another one in another release."""

    plain: Callable[..., str]

    def __call__(self, *args: object) -> str:
        run, key = VirtualTime.get_owner(), self.plain(*args)
        return key[::-1] if isinstance(run, Invocation) and run.version else key


class _Bugs(logging.Handler):
    """Notes on a run that it met an error which the product does not know."""

    def emit(self, record: logging.LogRecord) -> None:
        run = VirtualTime.get_owner()
        if getattr(record, "reason", "") == "internal_error" and isinstance(run, Invocation):
            trace = getattr(record, "stack_trace", "").strip().splitlines()
            run.bugs.append(trace[-1] if trace else record.getMessage())
