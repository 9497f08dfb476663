"""Stories of the engine: each row of ``stories.yaml`` ends as it says, step by step."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from math import inf
from pathlib import Path
from typing import Any

import yaml
from msgspec import structs

from shared.engine.outside import Role
from shared.engine.wakes import Tick, Work
from shared.model import labels
from shared.model.pools import Operation, PoolStatus
from tests.builders import IN_ONE_POOL, JOBSET_UID, a_template
from tests.engine.world import ERRORS, LIST, Function, World, gang, list_reasons, raising
from tests.rows import read_table, rows

FILE = str(Path(__file__).parent / "stories.yaml")
EXCLUSIVE = a_template(topology_terms=IN_ONE_POOL)


def read_fields(words: list[str]) -> dict[str, Any]:
    """Return ``name=value`` words as fields; a template is that of exclusive placement."""
    fields = {name: yaml.safe_load(value) for name, _, value in (word.partition("=") for word in words)}
    if "status" in fields:
        fields["status"] = PoolStatus(fields["status"])
    return fields | ({"template": EXCLUSIVE} if "template" in fields else {})


class Story:
    """A world to which the steps of a row happen. Pools have the number of their create."""

    def __init__(
        self,
        *,
        slices: int = 1,
        listed: bool = False,
        warm: bool = False,
        gangs: tuple[str, ...] = (),
        **options: Any,
    ) -> None:
        more: dict[str, Any] = {"capacity_policies": LIST} if listed else {}
        self.world = World(slices=slices, **options, **more)
        if gangs:
            self.world, self.queues = gang(*gangs, slices=slices, **options)
        self.fields: dict[str, Any] = {"replicas": slices} | ({"template": EXCLUSIVE} if warm else {})
        if warm:
            self.world.set_jobset(**self.fields)
        self.names: list[str] = []
        self.last: Work | Tick | None = None

    def tell(self, step: str) -> None:
        """Let one step happen: ``verb words``, and the reasons that it gives after an arrow."""
        text, arrow, reasons = step.partition(" -> ")
        verb, *words = text.split()
        getattr(self, verb.replace("-", "_") + "_" * (verb == "pass"))(*words)
        self.names += [name for name in self.world.gke.pools if name not in self.names]
        if arrow:
            assert self.last is not None
            assert " ".join(list_reasons(self.last)) == reasons.replace("nothing", ""), step

    def name_calls(self, pattern: str) -> tuple[str, int]:
        """Return a pattern and the number after ``#``; ``<0>`` is a pool, _ a blank."""
        text, _, nth = pattern.partition("#")
        named = re.sub(r"<(\d+)>", lambda found: self.names[int(found[1])], text.replace("_", " "))
        return named, int(nth or 1)

    def name_pools(self, numbers: tuple[str, ...]) -> list[str]:
        return [self.names[int(number)] for number in numbers if number != "none"]

    # --- what happens in the cluster ---

    def add(self, *words: str) -> None:
        fields = read_fields([word for word in words if "=" in word])
        self.world.add(*(word for word in words if "=" not in word), **fields)

    def wait(self, *words: str) -> None:
        fields = read_fields([word for word in words if "=" in word])
        self.world.wait(*(int(word) for word in words if "=" not in word), **fields)

    def buy(self, *slices: str) -> None:
        self.world.buy(*map(int, slices))

    def come(self, pool: str, ready: str = "4") -> None:
        self.world.come(self.names[int(pool)], ready=int(ready))

    def run(self, number: str, pool: str, jobset: str = "train") -> None:
        self.world.run(int(number), self.names[int(pool)], jobset=jobset)

    def place(self, number: str, pool: str, jobset: str = "train") -> None:
        """The pods of a slice are bound to nodes that stay as they are."""
        for host in range(4):
            node = f"{self.names[int(pool)]}-{host}"
            self.world.change_pod(f"{jobset}-{number}-{host}", node_name=node, unschedulable=False)

    def run_all(self) -> None:
        self.world.run_all(slices=self.fields["replicas"])

    def jobset(self, *words: str) -> None:
        self.world.set_jobset(**{"replicas": 1} | read_fields(list(words)))

    def suspend(self, seconds: str) -> None:
        since = self.world.clock.time - float(seconds)
        self.world.set_jobset(**self.fields, suspended=True, suspended_since=since)

    def finish(self) -> None:
        self.world.finish(**self.fields)

    def terminate(self) -> None:
        for name in self.world.cluster.pods:
            self.world.change_pod(name, deleting=True, deleting_since=self.world.clock.time)

    def end_pods(self, prefix: str = "") -> None:
        pods = self.world.cluster.pods
        self.world.cluster.pods = {name: pod for name, pod in pods.items() if not name.startswith(prefix)}

    def end_workloads(self) -> None:
        self.world.cluster.workloads.clear()

    def label(self, namespace: str, *words: str) -> None:
        own = {getattr(labels, key): value for key, _, value in (word.partition("=") for word in words)}
        self.world.cluster.labels[namespace] = own

    def end_namespace(self, namespace: str) -> None:
        del self.world.cluster.labels[namespace]

    def unready(self) -> None:
        for name, node in list(self.world.cluster.nodes.items()):
            self.world.cluster.nodes[name] = structs.replace(node, ready=False, ready_at=None)

    # --- what Kueue does ---

    def hold(self, seconds: str = "") -> None:
        """The workload says for how long a part of its pools is held."""
        marks = {labels.CAPACITY_CHECK_SECONDS: seconds.replace("none", "")} if seconds else {}
        since = self.world.clock.time
        self.world.set_jobset(**self.fields, suspended=True, suspended_since=since, marks=marks)

    def queue(self) -> None:
        self.queues.queue()

    def lose_quota(self) -> None:
        self.queues.workloads["train"] = structs.replace(self.queues.workloads["train"], holds_quota=False)

    def end_queue(self) -> None:
        self.queues.workloads.clear()

    def end_kueue(self) -> None:
        self.queues.workloads.clear()
        self.queues.absent = True

    def check(self, name: str, state: str, *words: str) -> None:
        found = self.queues.state(name)
        assert (found.state, " ".join(words) in found.message) == (state, True), found

    def written(self, count: str) -> None:
        assert len(self.queues.pauses) == int(count)

    # --- what happens in GKE, in the process, and to calls ---

    def pool(self, number: str, *words: str) -> None:
        self.world.change(self.names[int(number)], **read_fields(list(words)))

    def unlabel(self, number: str) -> None:
        self.world.change(self.names[int(number)], labels={})

    def pool_label(self, number: str, key: str, value: str) -> None:
        name = self.names[int(number)]
        self.world.change(name, labels=self.world.gke.pools[name].labels | {getattr(labels, key): value})

    def end_pool(self, number: str) -> None:
        del self.world.gke.pools[self.names[int(number)]]

    def hide(self) -> None:
        self.world.gke.hidden = set(self.world.gke.pools)

    def show(self) -> None:
        self.world.gke.hidden.clear()

    def operation(self, number: str, state: str) -> None:
        now, ended = self.world.clock.time, state == "ended"
        pool, ended_at = self.names[int(number)], now if ended else None
        run = Operation(pool=pool, creates=True, ended=ended, began_at=now, ended_at=ended_at)
        self.world.gke.operations = [run]

    def refuse(self, *names: str) -> None:
        self.world.gke.refusals = [ERRORS[name] for name in names]

    def refuse_delete(self, name: str) -> None:
        self.world.gke.delete_refusals = [ERRORS[name]]

    def fail(self, calls: str, error: str) -> None:
        pattern, nth = self.name_calls(calls)
        self.world.on(pattern, raising(ERRORS[error]), nth=nth, times=inf)

    def slow(self, calls: str, seconds: str, times: str = "1") -> None:
        pattern, nth = self.name_calls(calls)
        self.world.on(pattern, self.world.pass_time(float(seconds)), nth=nth, times=int(times) or inf)

    def before(self, calls: str, *step: str) -> None:
        pattern, nth = self.name_calls(calls)
        self.world.on(pattern, lambda: self.tell(" ".join(step)), nth=nth)

    def recover(self) -> None:
        self.world.recover()

    def restart(self) -> None:
        self.world.restart()

    def settings(self, *words: str) -> None:
        for function in (self.world.provisioner, self.world.collector):
            settings = structs.replace(function.ports.settings, **read_fields(list(words)))
            function.ports = structs.replace(function.ports, settings=settings)

    def pass_(self, seconds: str) -> None:
        self.world.clock.pause(float(seconds))

    # --- what the functions are woken for ---

    def provision(self, name: str = "train") -> None:
        self.last = self.world.provisioner.work(name)

    def collect(self, uid: str = JOBSET_UID) -> None:
        self.last = self.world.collector.work(uid=uid)

    def tick(self, role: str) -> None:
        self.last = self.choose(role).tick()

    def end(self, number: str, how: str, role: str = Role.PROVISION) -> None:
        problem = "" if how in ("created", "deleted") else how
        created, deleted = how == "created", how == "deleted"
        self.last = self.choose(role).end(
            self.names[int(number)], created=created, deleted=deleted, problem=problem
        )

    def choose(self, role: str) -> Function:
        return self.world.provisioner if role == Role.PROVISION else self.world.collector

    # --- what must be so ---

    def pools(self, count: str) -> None:
        assert len(self.world.gke.pools) == int(count)

    def owners(self, *names: str) -> None:
        assert [pool.owner.name for pool in self.world.gke.pools.values() if pool.owner] == list(names)

    def deleted(self, *numbers: str) -> None:
        assert sorted(self.world.list_deleted()) == sorted(self.name_pools(numbers))

    def forget_calls(self) -> None:
        self.world.take_calls()

    def calls(self, calls: str, count: str) -> None:
        pattern, _ = self.name_calls(calls)
        assert sum(fnmatch(call, pattern) for call in self.world.gke.calls) == int(count), self.world.gke.calls

    def errors(self, *names: str) -> None:
        assert self.last is not None
        found = [each[1] if isinstance(each, tuple) else each for each in self.last.errors]
        assert sorted({type(error).__name__ for error in found}) == sorted(
            name for name in names if name != "none"
        )

    def says(self, *words: str) -> None:
        assert self.last is not None
        assert " ".join(words) in self.last.outcomes[-1].decision.message

    def about(self, *words: str) -> None:
        assert self.last is not None
        assert self.last.outcomes[-1].subject.startswith(" ".join(words))

    def events(self, count: str, *words: str) -> None:
        notices = self.world.cluster.notices
        assert len(notices) == int(count)
        assert all(" ".join(words) in f"{each.subject.kind} {each.reason} {each.message}" for each in notices)

    def figures(self, *words: str) -> None:
        assert isinstance(self.last, Tick)
        assert self.last.figures == read_fields(list(words))

    def nodes(self, state: str) -> None:
        nodes = self.world.cluster.nodes.values()
        states = {"closed" if node.closed else "idle" if node.idle_since else "open" for node in nodes}
        assert states == {state}

    def zone(self, number: str, zone: str) -> None:
        assert self.world.gke.pools[self.names[int(number)]].zones == (zone,)


@rows("row", read_table(FILE, "about has begins does", section="about"))
def test_a_story_ends_as_it_says(row: dict[str, Any]) -> None:
    story = Story(**row.get("has", {}))
    for step in f"{row.get('begins', '')}; {row['does']}".split("; "):
        if step:
            story.tell(step)
