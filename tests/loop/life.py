"""The lives as rows, and what becomes of each when it is played on a cloud.

A row says what is submitted, what happens in which order, and what is right in the end: the pools
that were ever made, what the owner was told, and that nothing is left.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from demo.settings import TOPIC
from tests.loop.bodies import Json, find_kind, read_range
from tests.loop.cloud import EVENTS, wait_for
from tests.loop.surroundings import QUEUE, Actor, list_queue
from tests.loop.workload import OWN_REASON, is_within

if TYPE_CHECKING:
    from tests.loop.cloud import Cloud

EMBEDDED_KINDS = ("JobSet", "Job", "Pod")  # the kinds whose controllers the embedded cluster has
FOLDER = Path(__file__).parent / "lives"
CALLS_PER_POOL_MAX = 8
"""All calls that name a pool, refused ones included: made, looked at and given back are three.
Every try that GKE refuses because it is busy with another operation costs two more."""
CALLS_PER_MESSAGE_MAX = 2
"""For a message about a pool that is there: the create is refused, and the pool is looked at."""
NAME_LETTERS_MAX = 23
PASSING = {
    *("pool_in_progress", "gke_busy", "no_operation_slot", "view_stale", "unavailable", "throttled"),
    *("deletions_over_cap", "pod_unplaced", "pool_taken", "followers_wait", "slice_doubled"),
}
"""What may be so for a moment in any life: the other lives keep GKE busy, and a tick falls between
pods, nodes and pools that come or go."""
LATE = {"owner_gone", "owner_kind_unknown", "Pod owner_kind_unknown"}
"""Of what is still listed a moment after the workload was deleted: so each life ends."""
CREATED = "pool_created"  # only the end of a create tells it, so a busy function may leave it out
ENDS = {"workload_over", "pool_surplus"}
"""Why the pools of a workload go that ends by itself: its slices may end before it is over."""


class Row(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """One life. Its pools begin with its name, of which GKE's names have room for 22 letters."""

    life: str
    says: str  # what it proves
    workload: Json  # see `tests.loop.bodies.build_workload`
    steps: tuple[Json | str, ...] = ("apply",)
    """Verbs of `tests.loop.workload` with their arguments; before one may stand which workload."""
    pools: dict[str, int | str] = {}
    """How many pools of which nodes were ever made; two numbers are the least and the most."""
    told: tuple[str, ...] = ()
    """The reasons of our Events that must be told, besides that pools were absent. Before a reason
    stands the kind of its object, if this is not the workload."""
    maybe: tuple[str, ...] = ()  # reasons that depend on who is faster
    words: tuple[str, ...] = ()  # what some of these Events say
    queue: Json | None = None  # see `tests.loop.surroundings.list_queue`; the workload is in it
    mixes: bool = False  # whether its slices may share pools
    calls: int = 0  # all calls about its pools at most, if not as many as usual

    @property
    def reasons(self) -> set[str]:
        """All reasons that must be told."""
        makes = any(read_range(count)[0] for count in self.pools.values())
        return {*self.told, "pool_absent"} if makes else set(self.told)

    @property
    def end(self) -> str:
        """How its workload ends by itself; nothing if it is deleted while it lives."""
        return next((str(step["ends"]) for step in self.steps if isinstance(step, dict) and "ends" in step), "")

    @property
    def allowed(self) -> set[str]:
        """All reasons that may be told: those that time or another life decides, too."""
        # Kueue may suspend a workload for longer than the grace.
        of_queue = {"workload_suspended"} if self.queue else set()
        of_end = {*ENDS, "pool_shrinks"} if self.end else set()
        return {*self.reasons, *self.maybe, *PASSING, *LATE, *of_queue, *of_end, CREATED}

    @property
    def needs_controllers(self) -> bool:
        """Whether only the real cluster can play it."""
        return self.queue is not None or find_kind(self.workload) not in EMBEDDED_KINDS


class Life:
    """One row on a cloud, in a namespace of its own."""

    def __init__(self, row: Row, cloud: Cloud) -> None:
        self.row, self.cloud, self.namespace = row, cloud, f"life-{row.life}"
        cloud.create_namespace(self.namespace)
        self._actors: dict[str, Actor] = {}
        self._of_queue = list_queue(row.life, self.namespace, row.queue) if row.queue is not None else []
        for path, body in self._of_queue:
            cloud.create(path, body)

    def play(self) -> None:
        """Do all steps, wait for what is right, and return once nothing is left."""
        try:
            for step in self.row.steps:
                self._do(step)
            self._wait_right()
            for actor in self._actors.values():
                actor.heal()
            if all(actor.find_end() for actor in self._actors.values()):
                self._wait_nothing_left(self._find(""))
        except BaseException as error:
            error.add_note(self._describe())
            raise
        finally:
            for actor in self._actors.values():
                actor.heal()
                actor.delete()
        for actor in self._actors.values():
            self._wait_nothing_left(actor)
        for path, _ in reversed(self._of_queue):
            self.cloud.delete(f"{path}/{self.row.life}")

    def check(self) -> None:
        """Raise AssertionError if it came to something that its row does not say.

        All lives are over then, so that a late call counts. The names of its further workloads
        begin with the first one's.
        """
        row, main, pools, told = self.row, self._find(""), self.count_pools(), self.list_told()
        calls = main.list_calls()
        accepted = Counter(call["method"] for call in calls if call["code"] == "OK")
        creates = accepted["CreateNodePool"]
        assert pools.keys() <= row.pools.keys(), pools
        assert all(is_within(pools[shape], count) for shape, count in row.pools.items()), pools
        assert creates == accepted["DeleteNodePool"] >= pools.total(), accepted
        assert row.reasons <= told <= row.allowed, told
        assert not row.end or told & ENDS, told
        events = "\n".join(main.list_events())
        assert [words for words in row.words if words not in events] == [], events
        messages = [each for each in self.cloud.list_messages(TOPIC) if each["namespace"] == self.namespace]
        assert {each["kind"] for each in messages} <= {main.kind}, "the exporter spoke of another object"
        further = max(0, len(messages) - creates) if creates else 0
        most = row.calls or CALLS_PER_POOL_MAX * creates + CALLS_PER_MESSAGE_MAX * further
        about_pools = [call for call in calls if not call["method"].startswith("compute.")]
        assert len(about_pools) <= most, about_pools

    def count_pools(self) -> Counter[str]:
        """Return how many pools of which nodes were ever made."""
        return Counter(map(describe_pool, self._find("").list_pools_ever()))

    def list_told(self) -> set[str]:
        """Return the reasons of our Events, with the kind of an object that is not the workload."""
        told = set()
        for event in self.cloud.list_live(EVENTS, self.namespace):
            if reason := OWN_REASON.search(event["message"]):
                about = event["involvedObject"]["kind"]
                told.add(reason[1] if about == find_kind(self.row.workload) else f"{about} {reason[1]}")
        return told

    def _do(self, step: Json | str) -> None:
        ((words, argument),) = step.items() if isinstance(step, dict) else [(step, None)]
        of, _, verb = words.rpartition(" ")
        self._find(of).do(verb, argument)

    def _find(self, of: str) -> Actor:
        """Return the life's workload, or the one that steps call so."""
        if of not in self._actors:
            name = f"{self.row.life}-{of}" if of else self.row.life
            self._actors[of] = Actor(self.cloud, self.namespace, name, self.row.workload)
            self._actors[of].labels = {QUEUE: self.row.life} if self._of_queue else {}
        return self._actors[of]

    def _describe(self) -> str:
        """Return what is there and what was told, for whoever reads why a life went wrong."""
        main = self._find("")
        pools = [f"{each['name']} {each['status']}" for each in main.list_pools()]
        return "\n".join([*pools, *main.list_events()])

    def _wait_right(self) -> None:
        wanted = self.row.reasons
        wait_for(f"{self.row.life}: told {wanted}", lambda: wanted <= self.list_told())
        least = sum(read_range(count)[0] for count in self.row.pools.values())
        main = self._find("")
        wait_for(f"{self.row.life}: {least} pools", lambda: len(main.list_pools_ever()) >= least)

    def _wait_nothing_left(self, actor: Actor) -> None:
        """Return once neither GKE nor Kubernetes has anything of its pools."""
        wait_for(f"{actor.name}: no pools", lambda: not actor.list_pools())
        wait_for(f"{actor.name}: no nodes", lambda: not actor.list_nodes())


def read_lives(*, real: bool) -> list[Row]:
    """Return the rows of the catalogue for one of the two clusters."""
    rows = [
        structs.replace(row, workload={key: name_in(value, row.life) for key, value in row.workload.items()})
        for path in sorted(FOLDER.glob("*.yaml"))
        for row in msgspec.yaml.decode(path.read_bytes(), type=list[Row])
    ]
    names = [f"{row.life}-" for row in rows]
    assert not [one for one in names for other in names if one != other and other.startswith(one)]
    assert max(map(len, names)) <= NAME_LETTERS_MAX
    return [row for row in rows if real or not row.needs_controllers]


def name_in(value: Any, life: str) -> Any:
    """Return a value of a workload's words, in which * stands for the name of its life."""
    return value.replace("*", life) if isinstance(value, str) else value


def describe_pool(body: Json) -> str:
    """Return nodes, machine type and place of a pool, and what else was asked for."""
    config, placement, autoscaling = body["config"], body.get("placementPolicy", {}), body.get("autoscaling", {})
    disk, (zone,) = config.get("diskSizeGb", 100), body["locations"]
    most = autoscaling.get("totalMaxNodeCount") or autoscaling.get("maxNodeCount")
    words = [
        f"up to {most}" if autoscaling.get("enabled") else str(body["initialNodeCount"]),
        config["machineType"],
        "" if zone == "us-east5-b" else zone,
        placement.get("tpuTopology", ""),
        placement.get("policyName", ""),
        "spot" if config.get("spot") else "",
        "reserved" if config.get("reservationAffinity", {}).get("values") else "",
        f"{disk} GB" if disk != 100 else "",
    ]
    return " ".join(filter(None, words))
