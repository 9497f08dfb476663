"""The timeline: a pure model from observations to the steps, decisions and ends of every slice.

No clock, no I/O: the same observations give the same timeline. Observations may come in any order
and more than once; the first observation of a step counts, except for the end of a pool, where the
last one does.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable

from demo.loop.observations import (
    Called,
    Decided,
    JobSetSeen,
    MessagePublished,
    NodeSeen,
    Observation,
    PodSeen,
    PoolsListed,
)
from demo.loop.states import FeedLine, NodeLife, SliceTimeline, WorkloadTimeline, note_stay
from demo.loop.steps import SENTENCES, STEPS_OF_POOL, Step
from shared.model.names import parse_name

_DEMAND = "unschedulable"
_JOBSET = re.compile(r"namespaces/(?P<namespace>[^/]+)/jobsets/(?P<name>.+)")
_SETTLED_PHASES = ("Running", "Succeeded", "Failed")
_CPU_NODES = "the local cloud has one CPU node, and makes no other"
_COVERED_SECONDS = 1.0
"""A message of the exporter also covers the leaders that became unschedulable so long after it:
another one follows, but the function mostly reads the pods later."""


def describe_unplaced(pod: PodSeen) -> str:
    """Return why a pod without accelerators has no node, with the scheduler's words."""
    selects = f" with {pod.selects}" if pod.selects else ""
    return f"no node{selects} takes this pod ({_CPU_NODES}); the scheduler reports: {pod.unschedulable}"


class Timeline:
    """The model of one run.

    Args:
        workloads: Namespace and name of every JobSet that was applied; other workloads are ignored.
        started_at: Unix seconds at which they were applied.
    """

    def __init__(self, workloads: Iterable[tuple[str, str]], started_at: float) -> None:
        self.started_at = started_at
        self.workloads = {key: WorkloadTimeline(key[0], key[1], progress_at=started_at) for key in workloads}
        self.slices: dict[tuple[str, str], SliceTimeline] = {}
        self.unplaced: dict[str, PodSeen] = {}
        """By UID: the pods without accelerators that no node takes."""
        self.pools_now: dict[str, str] | None = None
        """The pools of the last listing; None before the first."""
        self.shared_calls: Counter[str] = Counter()
        self.calls: dict[str, list[Called]] = {}
        self.errors: dict[str, list[float]] = {}
        """When GKE began to list a pool as ERROR."""
        self.ends: dict[str, list[float]] = {}
        """When a pool was no longer listed; the same name may come again."""
        self.nodes_seen: list[NodeLife] = []
        """Every node of a pool that was there."""
        self._node_lives: dict[str, NodeLife] = {}
        self._ready_at: dict[str, dict[str, float]] = {}
        """When each node of a pool was first ready; kept after its end, for decisions that are seen
        late."""
        self._slice_of_pool: dict[str, SliceTimeline] = {}
        self._slots: dict[str, SliceTimeline] = {}
        """By the hash in the names of its pools: for which slice a slot was filled first."""
        self._early: dict[tuple[str, str], list[Observation]] = {}
        """What was seen of a Job before the JobSet that says that it is a slice, or decided about a
        JobSet before it was seen."""
        self._ended_pools: dict[str, float] = {}
        self._feed: list[FeedLine] = []
        self._handlers: dict[type, Callable[..., None]] = {
            JobSetSeen: self._see_jobset,
            PodSeen: self._see_pod,
            NodeSeen: self._see_node,
            MessagePublished: self._see_message,
            Decided: self._see_decision,
            Called: self._see_call,
            PoolsListed: self._see_pools,
        }

    def observe(self, observation: Observation) -> list[FeedLine]:
        """Take one observation in and return the lines that it adds to the feed."""
        self._feed = []
        self._handlers[type(observation)](observation)
        return self._feed

    @property
    def nodes_left(self) -> list[str]:
        """The nodes of pools that still exist."""
        return sorted(self._node_lives)

    def calls_of(self, one: SliceTimeline) -> Counter[str]:
        """Return how often the GKE API was called about the pools of a slice, by method."""
        return Counter(call.method for pool in one.pools for call in self.calls.get(pool, []))

    def refused_calls_of(self, one: SliceTimeline) -> int:
        """Return how many of these calls GKE refused, for example because it was busy."""
        return sum(call.code != "OK" for pool in one.pools for call in self.calls.get(pool, []))

    def list_calls(self, pool: str, method: str) -> list[float]:
        """Return when GKE accepted such calls about a pool, in order."""
        found = self.calls.get(pool, [])
        return sorted({call.at for call in found if call.method == method and call.code == "OK"})

    def slices_of(self, workload: WorkloadTimeline) -> list[SliceTimeline]:
        """Return the slices of one workload in the order of its spec."""
        return [
            one
            for one in self.slices.values()
            if (one.namespace, one.workload) == (workload.namespace, workload.name)
        ]

    def _reach(self, one: SliceTimeline, step: Step, at: float, detail: str = "", *, last: bool = False) -> None:
        """Note a step of a slice, and say so the first time."""
        known = step in one.steps
        if known and not last:
            return
        one.steps[step] = at
        if known:
            return
        self._touch(one.namespace, one.workload, at)
        emphasis = "good" if step in (Step.COMPLETED, Step.DELETED) else ""
        text = SENTENCES[step] + (f" ({detail})" if detail else "")
        self._feed.append(FeedLine(at, one.job, text, emphasis))

    def _touch(self, namespace: str, name: str, at: float) -> None:
        workload = self.workloads.get((namespace, name))
        if workload:
            workload.progress_at = max(workload.progress_at, at)

    def _see_jobset(self, seen: JobSetSeen) -> None:
        workload = self.workloads.get((seen.namespace, seen.name))
        if workload is None:
            return
        for spec in seen.slices:
            self._add_slice(workload, spec.job, spec.pods)
        if seen.slices:
            for observation in self._early.pop((seen.namespace, seen.name), []):
                self._handlers[type(observation)](observation)
        workload.message = seen.message or workload.message
        if (seen.terminal, seen.gone, seen.suspended) == (workload.terminal, workload.gone, workload.suspended):
            return
        workload.progress_at = max(workload.progress_at, seen.at)
        ended = (seen.terminal or seen.gone) and not workload.over
        workload.suspended = seen.suspended
        workload.terminal, workload.gone = workload.terminal or seen.terminal, workload.gone or seen.gone
        workload.ended_at = seen.at if ended else workload.ended_at
        if seen.suspended and not ended:
            self._feed.append(FeedLine(seen.at, workload.name, "the JobSet is suspended"))
        if ended:
            self._end_workload(workload, seen)

    def _end_workload(self, workload: WorkloadTimeline, seen: JobSetSeen) -> None:
        word = seen.terminal or "deleted"
        emphasis = "good" if word == "Completed" else "bad"
        self._feed.append(FeedLine(seen.at, workload.name, f"the JobSet is {word}", emphasis))
        for one in self.slices_of(workload):
            if Step.LEADER_BOUND in one.steps:
                one.steps.setdefault(Step.COMPLETED, seen.at)

    def _add_slice(self, workload: WorkloadTimeline, job: str, pods: int) -> None:
        key = (workload.namespace, job)
        if key in self.slices:
            return
        one = SliceTimeline(workload.namespace, workload.name, job, pods)
        self.slices[key] = one
        for observation in self._early.pop(key, []):
            self._handlers[type(observation)](observation)

    def _see_pod(self, pod: PodSeen) -> None:
        one = self.slices.get((pod.namespace, pod.job))
        if one is None:
            self._see_plain(pod)
            self._keep_early((pod.namespace, pod.job), pod)
            return
        if pod.gone:
            one.live_pods.pop(pod.uid, None)
            self._note_stays(one, pod.at)
            return
        one.live_pods[pod.uid] = pod
        self._note_mix(one, pod.at)
        self._note_stays(one, pod.at)
        if pod.index == "0":
            self._see_leader(one, pod)
        pods = list(one.live_pods.values())
        if len({each.index for each in pods}) >= one.pods and one.pods > 1:
            self._reach(one, Step.FOLLOWERS_CREATED, pod.at, f"{one.pods} pods")
        settled = {each.index for each in pods if each.phase in _SETTLED_PHASES}
        if len(settled) >= one.pods:
            self._reach(one, Step.RUNNING, pod.at)

    def _see_plain(self, pod: PodSeen) -> None:
        """Note a pod that no node takes though it needs no accelerators: no pool is made for it."""
        waits = pod.unschedulable and not pod.node and not pod.gone
        if not waits:
            self.unplaced.pop(pod.uid, None)
        elif pod.plain and (pod.namespace, pod.jobset) in self.workloads:
            if pod.uid not in self.unplaced:
                self._feed.append(FeedLine(pod.at, pod.name, describe_unplaced(pod), "bad"))
            self.unplaced[pod.uid] = pod

    def _note_stays(self, one: SliceTimeline, at: float) -> None:
        pods = one.live_pods.values()
        running = {each.index for each in pods if each.phase in ("Running", "Succeeded")}
        bound = [each for each in pods if each.index == "0" and each.node and each.phase != "Failed"]
        if len({each.index for each in pods if each.phase == "Succeeded"}) >= one.pods:
            one.finished = True  # its pods may be gone before its workload is over
        elif any(each.phase == "Pending" for each in pods):
            one.finished = False
        note_stay(one.runs, at, holds=one.finished or len(running) >= one.pods)
        pool = self._find_pool(bound[0].node) if bound else ""
        note_stay(one.bindings, at, holds=bool(bound), pool=pool)

    def _note_mix(self, one: SliceTimeline, at: float) -> None:
        """Note that the pods of a slice are on several pools, without links between them."""
        pools = sorted({self._find_pool(each.node) for each in one.live_pods.values()} - {""})
        makers = [self._slice_of_pool[pool].creation for pool in pools if pool in self._slice_of_pool]
        if len(pools) > 1 and not one.mixed and any(made and made.topology for made in makers):
            one.mixed = tuple(pools)
            text = f"its pods are on several node pools, so it could not start on real TPUs: {', '.join(pools)}"
            self._feed.append(FeedLine(at, one.job, text, "bad"))

    def list_mixed(self) -> list[str]:
        """Return a line for each slice whose pods were on several pools."""
        return [
            f"the pods of {each.job} ran on several node pools, {', '.join(each.mixed)}; set exclusive placement "
            "[slice_mixed]"
            for each in self.slices.values()
            if each.mixed
        ]

    def _find_pool(self, node: str, unknown: str = "") -> str:
        """Return the pool of a node that is there now."""
        return self._node_lives[node].pool if node in self._node_lives else unknown

    def _see_leader(self, one: SliceTimeline, pod: PodSeen) -> None:
        if pod.unschedulable and not pod.node:
            one.scheduler_message = pod.unschedulable
            self._reach(one, Step.UNSCHEDULABLE, pod.at, pod.unschedulable)
            self._match_demand(one)
        if pod.node:
            one.leader_pool = self._find_pool(pod.node, one.leader_pool)
            self._exchange(one, one.leader_pool)
            self._reach(one, Step.LEADER_BOUND, pod.at, pod.node)
            if one.pods == 1:
                self._reach(one, Step.FOLLOWERS_CREATED, pod.at, "a slice of one pod has none")
        if pod.phase == "Failed" and one.leader_phase != "Failed":
            self._feed.append(FeedLine(pod.at, one.job, f"the leader failed (attempt {pod.restart})", "bad"))
        one.leader_phase = pod.phase

    def _see_node(self, node: NodeSeen) -> None:
        if node.gone:
            if node.name in self._node_lives:
                self._node_lives.pop(node.name).ended_at = node.at
            return
        if node.name not in self._node_lives:
            self._node_lives[node.name] = NodeLife(node.pool, node.at)
            self.nodes_seen.append(self._node_lives[node.name])
        life = self._node_lives[node.name]
        if node.ready:
            life.ready_at = node.at if life.ready_at is None else life.ready_at
            self._ready_at.setdefault(node.pool, {}).setdefault(node.name, node.at)
        self._check_nodes(node.pool)

    def _check_nodes(self, pool: str) -> None:
        one = self._slice_of_pool.get(pool)
        if one is None or one.creation is None:
            return
        count = one.creation.node_count
        moments = sorted(self._ready_at.get(pool, {}).values())
        if count and len(moments) >= count:
            self._reach(one, Step.NODES_READY, moments[count - 1], f"{count} x {one.creation.machine_type}")

    def _see_message(self, message: MessagePublished) -> None:
        jobset = _JOBSET.fullmatch(message.subject)
        workload = self.workloads.get((jobset["namespace"], jobset["name"])) if jobset else None
        if workload is None:
            return
        workload.messages += 1
        self._feed.append(FeedLine(message.at, workload.name, f"the exporter published: {message.observed}"))
        if message.observed == _DEMAND:
            workload.demands.append(message.at)
            for one in self.slices_of(workload):
                self._match_demand(one)

    def _match_demand(self, one: SliceTimeline) -> None:
        """Note the first message about its workload that covers its leader."""
        waits_since = one.steps.get(Step.UNSCHEDULABLE, math.inf)
        demands = self.workloads[one.namespace, one.workload].demands
        found = [at for at in demands if at >= waits_since - _COVERED_SECONDS]
        if found:
            self._reach(one, Step.PUBLISHED, min(found), last=True)

    def _keep_early(self, key: tuple[str, str], observation: Observation) -> None:
        """Keep what belongs to a Job that no JobSet seen so far explains."""
        if key[1]:
            self._early.setdefault(key, []).append(observation)

    def _exchange(self, one: SliceTimeline, pool: str) -> None:
        """Give a slice the pool that its leader runs on.

        Pools are counted, not matched: until then it is a guess for which slice of a workload a
        pool was made.
        """
        other = self._slice_of_pool.get(pool)
        if other is None or other is one or other.leader_pool == pool:
            return
        if (other.workload, other.pods) != (one.workload, one.pods):
            return  # it is a guest there
        one.pools, other.pools = other.pools, one.pools
        one.creation, other.creation = other.creation, one.creation
        for step in STEPS_OF_POOL:
            mine, its = one.steps.pop(step, None), other.steps.pop(step, None)
            one.steps |= {} if its is None else {step: its}
            other.steps |= {} if mine is None else {step: mine}
        for each in (one, other):
            for name in each.pools:
                self._own(each, name)

    def _own(self, one: SliceTimeline, pool: str) -> None:
        self._slice_of_pool[pool] = one
        if (parsed := parse_name(pool)) is not None:
            self._slots[parsed.hash] = one

    def _see_decision(self, decided: Decided) -> None:
        workload = self.workloads.get((decided.namespace, decided.workload))
        slices = self.slices_of(workload) if workload else []
        if not slices:
            self._keep_early((decided.namespace, decided.workload), decided)
            return
        one = self._find_slice(decided, slices) if decided.pool else None
        about = [one] if one else slices
        for each in about:
            each.decisions.append(decided)
            if decided.function == "provision":
                self._reach(each, Step.INVOKED, decided.at)
                self._touch(each.namespace, each.workload, decided.at)
        if one and _tells_the_pool(decided):
            self._add_pool(one, decided)
        emphasis = "bad" if decided.decision == "refuse" else ""
        told = f": {decided.message}" if decided.message else ""
        text = f"{decided.function} decided {decided.decision} because {decided.reason}{told}"
        # A tick says each minute what a workload waits for.
        if decided.wake != "tick" or decided.decision in ("create", "delete"):
            self._feed.append(FeedLine(decided.at, one.job if one else decided.workload, text, emphasis))

    def _find_slice(self, decided: Decided, slices: list[SliceTimeline]) -> SliceTimeline | None:
        """Return the slice that a pool is for: by its slot, else the first of its size."""
        parsed = parse_name(decided.pool)
        known = self._slice_of_pool.get(decided.pool) or (self._slots.get(parsed.hash) if parsed else None)
        if known is not None or not _tells_the_pool(decided):
            return known
        named = [each for each in slices if each.job == decided.slot]
        free = [each for each in slices if not each.pools]
        alike = [each for each in free if each.pods == decided.node_count]
        return next(iter(named or alike or free), None)

    def _add_pool(self, one: SliceTimeline, decided: Decided) -> None:
        if decided.decision == "create" or one.creation is None:
            one.creation = decided
        if decided.pool not in one.pools:
            one.pools.append(decided.pool)
        self._own(one, decided.pool)
        self._replay_calls(decided.pool)
        self._check_nodes(decided.pool)

    def _replay_calls(self, pool: str) -> None:
        """Take in the calls about a pool that were seen before it was known whose it is."""
        for call in self.calls.get(pool, []):
            self._reach_by_call(call)
        if pool in self._ended_pools:
            self._reach_end(pool, self._ended_pools[pool])

    def _see_call(self, call: Called) -> None:
        if not call.pool:
            self.shared_calls[call.method] += 1
            return
        self.calls.setdefault(call.pool, []).append(call)
        self._reach_by_call(call)

    def _reach_by_call(self, call: Called) -> None:
        one = self._slice_of_pool.get(call.pool)
        if one is None or call.code != "OK":
            return
        if call.method == "CreateNodePool":
            # The function's record is written at its end; it was certainly invoked before GKE
            # answered it.
            one.steps[Step.INVOKED] = min(one.steps.get(Step.INVOKED, call.at), call.at)
            self._reach(one, Step.ACCEPTED, call.at, call.pool)
        elif call.method == "DeleteNodePool":
            self._reach(one, Step.DELETE_ACCEPTED, call.at, last=True)

    def _see_pools(self, listed: PoolsListed) -> None:
        for name in (self.pools_now or {}).keys() - listed.pools.keys():
            self._ended_pools[name] = listed.at
            self.ends.setdefault(name, []).append(listed.at)
            self._reach_end(name, listed.at)
        for name, status in listed.pools.items():
            if status == "ERROR" and (self.pools_now or {}).get(name) != "ERROR":
                self.errors.setdefault(name, []).append(listed.at)
        self.pools_now = listed.pools

    def _reach_end(self, pool: str, at: float) -> None:
        one = self._slice_of_pool.get(pool)
        if one is not None and one.pool == pool:
            self._reach(one, Step.DELETED, at, pool, last=True)


def _tells_the_pool(decided: Decided) -> bool:
    """Return whether a decision shows that its slice has a pool.

    A function that dies between GKE's answer and its own record leaves it to the next delivery to
    say so.
    """
    found_again = decided.function == "provision" and decided.decision in ("keep", "wait")
    return decided.decision == "create" or found_again
