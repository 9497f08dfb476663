"""Many pairs of JobSets with equal slices at the same time: whose pods come to lie on whose pool.

Each pair has a namespace of its own; names repeat from namespace to namespace. When a JobSet comes,
how long GKE takes for its pool and how long its pods run is drawn from a seed, so that pools become
ready in another order than they were asked for, and pods wait while pools of the same shape stand
empty.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from demo.stack.stack import Stack
from tests.lives.bindings import Binding, Bindings, PodState
from tests.lives.cloud import Cloud, wait_for
from tests.lives.jobset_bodies import EXCLUSIVE, PINNED, Job, jobset, runs

PINNED_PAIRS, DEFAULT_PAIRS = 50, 15
PODS = 2
PINNED_KIND, DEFAULT_KIND = "pinned", "default"
_ANNOTATIONS = {PINNED_KIND: PINNED, DEFAULT_KIND: EXCLUSIVE}
_MAX_RESTARTS = {PINNED_KIND: 0, DEFAULT_KIND: 5}
"""A default slice may take another's idle pool in the moment between the last look before its
deletion and the cordon. GKE then drains it, and it runs again elsewhere. A pinned one has no such
moment and gets no second try."""
_SPREAD_SECONDS = 20.0
"""Of the submissions, in real time."""
_CREATE_SECONDS = (30, 60, 90, 120, 150, 180, 210, 240)
"""Virtual; one class of pool names each."""
_RUN_SECONDS = (0.5, 4.0)
"""Real, from when all pods of a slice run: see `Ends`."""
_FOREVER = 1_000_000
_DELETE_SECONDS = 60
_SUBMITTERS = 6
_ALL_DONE_SECONDS = 600
_JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One JobSet of a pair."""

    at: float
    namespace: str
    name: str
    kind: str
    run_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What came of all pairs of one kind."""

    slices: int
    pods_bound: int
    """Of the last attempt of each."""
    pools_made: int
    foreign: list[str] = field(default_factory=list)
    """Slices with a pod on a pool that was made for another slice."""
    torn: list[str] = field(default_factory=list)
    """Slices whose pods of one attempt lay on more than one pool."""
    drained: list[str] = field(default_factory=list)
    """Slices that had to be tried again, because the pool under them was deleted."""
    drained_at_home: list[str] = field(default_factory=list)
    """Those of them that lay on the pool that was made for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffle:
    """What one shuffled run on one cluster came to."""

    kind: str
    tallies: dict[str, Tally]
    shared: list[str]
    """Moments at which a pool held pods of two slices."""
    mislabelled: list[str]
    """Nodes of pinned pools whose label does not name the Job that the pool was made for."""
    seconds: float


class Ends:
    """Ends the pods of a slice together, once all of them have run for as long as was drawn.

    Real slices do, because their pods wait for each other. If a leader ended before its followers
    have begun, it would no longer keep the leaders of other slices off its pool, and JobSet would
    still send its followers there.
    """

    def __init__(self, cloud: Cloud, bindings: Bindings, submissions: list[Submission]) -> None:
        self._cloud, self._bindings = cloud, bindings
        self._seconds = {(each.namespace, each.name): each.run_seconds for each in submissions}
        self._since: dict[frozenset[str], float] = {}

    def look(self) -> None:
        """End what has run for long enough."""
        slices: dict[tuple[str, str], list[PodState]] = {}
        for pod in self._bindings.running():
            slices.setdefault((pod.of.namespace, pod.jobset), []).append(pod)
        now = time.monotonic()
        for key, pods in slices.items():
            began = self._since.setdefault(frozenset(pod.uid for pod in pods), now)
            if key in self._seconds and len(pods) == PODS and now - began >= self._seconds[key]:
                for pod in pods:
                    self._cloud.succeed(pod.of.namespace, pod.name)


def draw(seed: int) -> list[Submission]:
    """Return what is to be submitted, in the order of time; the same for the same seed."""
    chance = random.Random(seed)
    kinds = [PINNED_KIND] * PINNED_PAIRS + [DEFAULT_KIND] * DEFAULT_PAIRS
    found = [each for number, kind in enumerate(kinds) for each in _pair(chance, f"{kind}-{number:02d}", kind)]
    return sorted(found, key=lambda each: each.at)


def _pair(chance: random.Random, namespace: str, kind: str) -> Iterator[Submission]:
    start = chance.uniform(0, _SPREAD_SECONDS)
    for side in ("left", "right"):
        yield Submission(
            at=start + chance.uniform(0, 1.5),
            namespace=namespace,
            name=f"c{chance.randrange(len(_CREATE_SECONDS))}-{side}",
            kind=kind,
            run_seconds=chance.uniform(*_RUN_SECONDS),
        )


def shuffle(stack: Stack, seed: int) -> Shuffle:
    """Submit everything, watch every binding, and return the result once all pools are deleted."""
    started = time.monotonic()
    submissions = draw(seed)
    namespaces = sorted({each.namespace for each in submissions})
    with Cloud(stack) as cloud, Bindings(stack.addresses.kubeconfig) as bindings:
        faults = [
            cloud.add_fault("duration", pool=f"c{index}-*", seconds=seconds)
            for index, seconds in enumerate(_CREATE_SECONDS)
        ]
        faults.append(cloud.add_fault("duration", pool="c?-*", operation="delete", seconds=_DELETE_SECONDS))
        try:
            for name in namespaces:
                cloud.create_namespace(name)
            ends = Ends(cloud, bindings, submissions)
            with ThreadPoolExecutor(max_workers=1) as background:
                sending = background.submit(_submit_all, cloud, submissions)
                wait_for(
                    "all JobSets completed",
                    lambda: _all_completed(cloud, submissions, ends, sending),
                    seconds=_ALL_DONE_SECONDS,
                )
            wait_for("all pools gone", lambda: not _pools(cloud), seconds=_ALL_DONE_SECONDS)
            nodes, pods = cloud.items("/api/v1/nodes"), cloud.items("/api/v1/pods")
            wait_for("every binding seen", lambda: bindings.has_seen(nodes, pods))
        finally:
            for number in faults:
                cloud.clear_fault(number)
            for name in namespaces:
                cloud.delete(f"/api/v1/namespaces/{name}")
        return _judge(stack, bindings, submissions, time.monotonic() - started)


def _submit_all(cloud: Cloud, submissions: list[Submission]) -> None:
    started = time.monotonic()

    def submit(each: Submission) -> None:
        threading.Event().wait(max(0.0, started + each.at - time.monotonic()))
        body = jobset(
            each.name,
            Job(does=runs(_FOREVER)),
            annotations=_ANNOTATIONS[each.kind],
            failurePolicy={"maxRestarts": _MAX_RESTARTS[each.kind]},
        )
        cloud.create(f"{_JOBSETS}/namespaces/{each.namespace}/jobsets", body)

    with ThreadPoolExecutor(max_workers=_SUBMITTERS) as pool:
        list(pool.map(submit, submissions))


def _all_completed(cloud: Cloud, submissions: list[Submission], ends: Ends, sending: Future[None]) -> bool:
    """Return whether all have completed; raises AssertionError if one failed or was not sent."""
    if sending.done():
        sending.result()
    ends.look()
    ours = {(each.namespace, each.name) for each in submissions}
    found = [
        each
        for each in cloud.items(f"{_JOBSETS}/jobsets")
        if (each["metadata"]["namespace"], each["metadata"]["name"]) in ours
    ]
    completed = [each for each in found if each.get("status", {}).get("terminalState") == "Completed"]
    failed = [each for each in found if each.get("status", {}).get("terminalState") == "Failed"]
    assert not failed, [
        (each["metadata"]["namespace"], each["metadata"]["name"], each["status"]) for each in failed
    ]
    return len(completed) == len(submissions)


def _pools(cloud: Cloud) -> list[str]:
    return [
        name for name in cloud.pools() if name.startswith(tuple(f"c{i}-" for i in range(len(_CREATE_SECONDS))))
    ]


def _judge(stack: Stack, bindings: Bindings, submissions: list[Submission], seconds: float) -> Shuffle:
    found = [each for each in bindings.of() if each.pod.of.namespace.startswith((PINNED_KIND, DEFAULT_KIND))]
    tallies = {
        kind: _tally(
            [each for each in found if each.pod.of.namespace.startswith(kind)],
            pools={each.pool for each in bindings.hosts() if each.made_for.namespace.startswith(kind)},
            slices=sum(each.kind == kind for each in submissions),
        )
        for kind in (PINNED_KIND, DEFAULT_KIND)
    }
    return Shuffle(
        kind=str(stack.settings.cluster),
        tallies=tallies,
        shared=bindings.shared(),
        mislabelled=_mislabelled(bindings),
        seconds=round(seconds, 1),
    )


def _tally(found: list[Binding], *, pools: set[str], slices: int) -> Tally:
    pools_of: dict[tuple[str, int], set[str]] = {}
    last: Counter[str] = Counter()
    for each in found:
        key, attempt = each.pod.of.key, each.pod.restart
        pools_of.setdefault((key, attempt), set()).add(each.host.pool)
        last[key] = max(last[key], attempt)
    lost = [each for each in found if each.pod.restart < last[each.pod.of.key]]
    return Tally(
        slices=slices,
        pods_bound=len(found) - len(lost),
        pools_made=len(pools),
        foreign=sorted({each.pod.of.key for each in found if not each.own}),
        torn=sorted({key for (key, _), there in pools_of.items() if len(there) > 1}),
        drained=sorted({each.pod.of.key for each in lost}),
        drained_at_home=sorted({each.pod.of.key for each in lost if each.own}),
    )


def _mislabelled(bindings: Bindings) -> list[str]:
    """Return the nodes of pinned pools that JobSet's selector would not find."""
    key = "alpha.jobset.sigs.k8s.io/namespaced-job"
    return [
        host.name
        for host in bindings.hosts()
        if host.made_for.namespace.startswith(PINNED_KIND)
        and host.labels.get(key) != f"{host.made_for.namespace}_{host.made_for.job}"
    ]
