"""The sweep: checks all of our pools and all waiting leaders, without exporter or messages.

Clusters are swept side by side, and within one the workloads. Whatever is raised about one object
is reported with its name, and the others go on.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeVar, cast

from shared.core.decide.cluster_proof import decide_unproven
from shared.core.decide.collect import decide_collect, decide_over_cap, needs_cap
from shared.core.decide.pool_facts import OwnerState, PoolFacts
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.errors import ProvisionerError
from shared.core.identity.pool_index import PoolIndex
from shared.core.identity.pools import sort_for_cap
from shared.core.kinds.table import find_kind_of_pod
from shared.core.times import measure_seconds
from shared.perform.act_within_limits import find_limits
from shared.perform.admit_workloads import Admission
from shared.perform.answer_demand import provision_pod
from shared.perform.bounded_ports import bound_ports
from shared.perform.cluster_figures import ClusterFigures
from shared.perform.creation_list import Creations
from shared.perform.deletion_cap import DeletionCap
from shared.perform.explain import explain, note_unwritten
from shared.perform.followers import judge_followers
from shared.perform.gather import Gathered, OwnerReader, gather_facts
from shared.perform.keep_warm import find_displaced, tell_displaced
from shared.perform.outcome import Outcome, describe_owner, describe_pool_outcome
from shared.perform.pool_sizes import is_resizable, measure_elastic
from shared.perform.prove_cluster import is_other
from shared.perform.release_pools import is_due_for_a_look, release_pool
from shared.perform.resize_pools import shrink_pool
from shared.perform.resume_workloads import SweepShare, answer_asking, release_partial
from shared.perform.shared_reads import OneRead, share_reads
from shared.perform.side_by_side import CALLS_AT_ONCE, CLUSTERS_AT_ONCE, get_runner
from shared.perform.sweep_report import SweepReport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from shared.core.demand.demand import Demand
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import Ports
    from shared.core.workloads import PodView, WorkloadView

T = TypeVar("T")
R = TypeVar("R")
FRESH_SECONDS = 5.0
"""The sweep skips a leader that waited for less than this when the pools were listed, because its
message is about to be handled."""
LIST_SECONDS_MAX = 30.0
"""Leaders are answered from a list of pools that is at most so old; an older one is made again,
because an attempt whose pool it shows may have failed and be gone."""
_UNTOLD = tuple((Verdict.KEEP, each) for each in (Reason.POOL_FAILED, Reason.POOL_WARM, Reason.POOL_LENT))
"""After a failure the leader's own Event says what follows; that a pool stays is told once, by
`collect`."""
_STAYS = tuple((Verdict.KEEP, each) for each in (Reason.OWNER_LIVE, Reason.POOL_DEGRADED))
_REFUSED_BY_LIMIT = (Verdict.REFUSE, Reason.LIMIT_REACHED)
LEADERS_MAX = 10_000
"""The most waiting leaders that one sweep looks at; the next sweep continues."""


def sweep(ports: Ports) -> SweepReport:
    """Look at every cluster once. An error about one cluster, pool or pod is never raised.

    With more clusters than run side by side, each has its share of the time.
    """
    reports = {cluster: SweepReport() for cluster in ports.clusters}
    rounds = math.ceil(len(reports) / CLUSTERS_AT_ONCE)
    share_seconds = (ports.until - ports.clock.now()) / max(rounds, 1)
    tasks = [partial(_sweep_cluster, name, ports, report, share_seconds) for name, report in reports.items()]
    done = get_runner(ports)(tasks, at_once=CLUSTERS_AT_ONCE, until=ports.until)
    for (name, report), result in zip(reports.items(), done, strict=True):
        if isinstance(result, Exception):
            report.add_error(name, result)
    total = SweepReport()
    total.merge(reports.values())
    return total


def _sweep_cluster(cluster: str, ports: Ports, report: SweepReport, share_seconds: float) -> None:
    _ClusterSweep(cluster, bound_ports(ports, ports.clock.now() + share_seconds), report).run()


class _ClusterSweep:
    """One sweep of one cluster."""

    def __init__(self, cluster: str, ports: Ports, report: SweepReport) -> None:
        self._cluster, self._report = cluster, report
        self._ports = ports
        """For looks that a deletion rests on."""
        live, self._reads = share_reads(cluster, ports)
        self._shared = dataclasses.replace(ports, clusters=ports.clusters | {cluster: live})
        """For everything else."""
        cap = ports.settings.sweep_deletions_max
        self._cap = DeletionCap(cap, reserved=max(1, cap // 10))
        self._limits = find_limits(cluster, ports)
        self._creations = Creations(cluster, ports)
        self._figures = ClusterFigures()

    def run(self) -> None:
        """Sweep the cluster; an error of its list of pools is raised."""
        listed_at = self._ports.clock.now()
        pools = PoolIndex(self._ports.pools.list(self._cluster))
        try:
            left = self._act_on(self._judge_all(pools))
            self._cap.free()
            self._sweep_leaders(pools, listed_at=listed_at)
            self._sweep_queues()
            self._sweep_asking()
            self._act_on(left)
        finally:
            self._report.over_cap = self._cap.over
            for notice, error in self._reads.flush():
                note_unwritten(notice, error)

    def _judge_all(self, pools: PoolIndex) -> list[_Judged]:
        """Return the decision about each of our pools, in the order in which they are done."""
        self._listed = pools
        ours: defaultdict[tuple[str, str, str], list[PoolSnapshot]] = defaultdict(list)
        for pool in pools:
            if pool.owner is not None:
                ours[pool.owner.kind, pool.owner.namespace, pool.owner.name].append(pool)
        judged: dict[str, _Judged] = {}
        for owned, found in self._for_each(self._judge_pools, list(ours.values())):
            if isinstance(found, Exception):
                self._report.add_error(_name_owner(owned[0]), found)
            else:
                judged |= {each.pool.name: each for each in found}
        cap, now = self._ports.settings.sweep_deletions_max, self._ports.clock.now()
        due = sort_for_cap((each.pool for each in judged.values() if each.is_limited), cap, now=now)
        unlimited = [each for each in judged.values() if not each.is_limited]
        self._explain_kept(unlimited)
        return [*(judged[pool.name] for pool in due), *unlimited]

    def _act_on(self, judged: Sequence[_Judged]) -> list[_Judged]:
        """Do what was decided; return what may only be done when the reserve of the cap is free."""
        left = []
        for each, outcome in self._for_each(self._act, judged):
            if isinstance(outcome, Exception):
                claim = describe_owner(self._cluster, each.pool.owner).get("claim")
                self._report.add_error(f"node pool {each.pool.name}", outcome, claim=claim)
                self._figures.add_pool(each.pool, each.decision)
            elif outcome.decision.reason == Reason.SWEEP_OVER_CAP and not self._cap.over:
                left.append(each)
            else:
                self._report.outcomes.append(outcome)
                self._figures.add_pool(each.pool, outcome.decision)
        return left

    def _judge_pools(self, owned: Sequence[PoolSnapshot]) -> list[_Judged]:
        """Return the decision about each pool of one workload, which is read once.

        A pool that cannot be judged stays, as if its owner could not be read.
        """
        reader, found = OwnerReader(self._cluster, self._shared), []
        now, settings = self._ports.clock.now(), self._ports.settings
        for pool in owned:
            try:
                seen = gather_facts(pool, reader, pools=owned)
                decision = decide_collect(seen.facts, now=now, settings=settings)
            except Exception as error:  # noqa: BLE001 -- the net of this pool
                claim = describe_owner(self._cluster, pool.owner).get("claim")
                self._report.add_error(_name_owner(pool), error, claim=claim)
                seen = Gathered(PoolFacts(pool=pool, owner=OwnerState.UNKNOWN))
                decision = decide_collect(seen.facts, now=now, settings=settings)
            found.append(_Judged(seen, decision, owned))
        return found

    def _act(self, judged: _Judged) -> Outcome:
        """Delete a pool after a second look, or remove empty nodes; else do nothing."""
        pool, decision, workload = judged.pool, judged.decision, judged.seen.workload
        if judged.is_limited and (self._cap.over or self._cap.is_reserved):
            decision = decide_over_cap(pool.name, self._ports.settings)
        elif decision.verdict == Verdict.DELETE and is_other(self._shared.clusters[self._cluster], self._listed):
            decision = decide_unproven(pool.name)  # many pools, and one read for all of them
        elif is_due_for_a_look(decision):
            decision = release_pool(self._cluster, pool, self._ports, pools=judged.owned, cap=self._cap)
            if (decision.verdict, decision.reason) not in _UNTOLD:
                explain(self._shared.clusters[self._cluster], decision, objects=(workload,))
        if (decision.verdict, decision.reason) in _STAYS and workload is not None and is_resizable(pool):
            decision = self._shrink(judged, workload) or decision
        return describe_pool_outcome(self._cluster, pool, decision)

    def _shrink(self, judged: _Judged, workload: WorkloadView) -> Decision | None:
        found = shrink_pool(self._cluster, judged.pool, workload, self._ports, judged.owned, self._report)
        if found is not None:
            explain(self._shared.clusters[self._cluster], found, objects=(workload,))
        return found

    def _explain_kept(self, judged: Iterable[_Judged]) -> None:
        """Write an Event for each workload whose parent keeps it, in every sweep.

        Such a workload uses chips for as long as it is kept, and Events expire.
        """
        for each in judged:
            if each.decision.reason == Reason.PARENT_OVER:
                told = (each.seen.workload, each.seen.facts.parent)
                explain(self._shared.clusters[self._cluster], each.decision, objects=told)

    def _sweep_leaders(self, pools: PoolIndex, *, listed_at: float) -> None:
        """Answer the waiting leaders, those of one workload one after the other."""
        try:
            found = self._ports.clusters[self._cluster].list_waiting_leaders()
            leaders = [pod for pod in islice(found, LEADERS_MAX) if not self._is_fresh(pod, listed_at)]
        except Exception as error:  # noqa: BLE001 -- the net of this list
            self._report.add_error(f"waiting leaders of {self._cluster}", error)
            return
        self._report.figures[self._cluster] = self._figures
        by_workload: defaultdict[tuple[str, str, str], list[PodView]] = defaultdict(list)
        for pod in leaders:
            by_workload[_find_home(pod)].append(pod)
        self._answered = set[str]()
        self._refused: list[tuple[PodView, Outcome]] = []
        self._recent = OneRead(lambda: pools, listed_at)
        self._start_limits(pools, listed_at=listed_at)
        for pods, done in self._for_each(self._answer, list(by_workload.values())):
            if isinstance(done, Exception):
                self._add_failure(pods, done)
        self._make_room()
        followers = judge_followers(
            self._cluster, self._shared, pools=pools, answered=self._answered, cap=self._cap
        )
        self._report.outcomes.extend(outcome for _, outcome in followers)

    def _sweep_queues(self) -> None:
        """Answer Kueue's workloads that wait for capacity, if that is switched on."""
        queues = self._shared.queues.get(self._cluster)
        if queues is None:
            return
        admission = Admission(
            cluster=self._cluster,
            queues=queues,
            ports=self._shared,
            cap=self._cap,
            limits=self._limits,
            creations=self._creations,
        )
        try:
            answered = admission.run(PoolIndex(self._ports.pools.list(self._cluster)))
        except Exception as error:  # noqa: BLE001 -- the net of these lists
            self._report.add_error(f"Kueue's workloads of {self._cluster}", error)
            return
        for queued, done in answered:
            if isinstance(done, Exception):
                self._report.add_error(queued, done)
            else:
                self._report.outcomes.extend(done)

    def _sweep_asking(self) -> None:
        """Answer the suspended workloads that wait for their capacity, if the setting is on."""
        share = SweepShare(cap=self._cap, limits=self._limits, creations=self._creations, figures=self._figures)
        try:
            answered = answer_asking(self._cluster, self._ports, share)
        except Exception as error:  # noqa: BLE001 -- the net of this list
            self._report.add_error(f"suspended workloads of {self._cluster}", error)
            return
        for workload, done in answered:
            if isinstance(done, Exception):
                self._report.add_error(workload, done)
            else:
                self._report.outcomes.extend(done)

    def _answer(self, pods: Sequence[PodView]) -> None:
        home, listed = _find_home(pods[0]), self._list_recent
        if released := release_partial(self._cluster, home, pods, self._ports, list_pools=listed):
            self._report.outcomes.append(released)
            return
        for pod in pods:
            try:
                outcome = provision_pod(
                    self._cluster,
                    pod,
                    self._shared,
                    pools=self._list_recent(),
                    answered=self._answered,
                    cap=self._cap,
                    limits=self._limits,
                    creations=self._creations,
                )
                self._report.outcomes.append(outcome)
                pool = self._listed.find(outcome.pool)
                self._figures.add_answer(pod, outcome, pool, now=self._ports.clock.now())
                if (outcome.decision.verdict, outcome.decision.reason) == _REFUSED_BY_LIMIT:
                    self._refused.append((pod, outcome))
            except Exception as error:  # noqa: BLE001 -- the net of this pod
                self._add_failure([pod], error)

    def _add_failure(self, pods: Sequence[PodView], error: Exception) -> None:
        """Report the error of waiting leaders that could not be answered."""
        self._report.add_error(f"Pod {pods[0].namespace}/{pods[0].name}", error)
        for pod in pods:
            claim = error.claim if isinstance(error, ProvisionerError) and len(pods) == 1 else None
            self._figures.add_unanswered(pod, claim, now=self._ports.clock.now())

    def _make_room(self) -> None:
        """Delete idle pools for the leaders that a limit refuses; the next sweep creates theirs."""
        idle = {each.pool for each in self._report.outcomes if each.decision.reason == Reason.POOL_WARM}
        if not (self._refused and idle and self._limits):
            return
        gone = {each.pool for each in self._report.outcomes if each.decision.verdict == Verdict.DELETE}
        refused = [outcome for _, outcome in self._refused]
        try:
            found = find_displaced(self._cluster, refused, idle, self._ports, self._limits, gone=gone)
        except Exception as error:  # noqa: BLE001 -- the net of this look
            self._report.add_error(f"idle node pools of {self._cluster}", error)
            return
        pools = [pool for pool in self._listed if pool.name in found]
        release = partial(self._displace, found)
        for pool, decision in self._for_each(release, pools):
            if isinstance(decision, Exception):
                self._report.add_error(f"node pool {pool.name}", decision)
            else:
                self._report.outcomes.append(describe_pool_outcome(self._cluster, pool, decision))
                if decision.verdict != Verdict.DELETE:
                    del found[pool.name]
        tell_displaced(self._cluster, found, self._refused, self._shared)

    def _displace(self, found: dict[str, Demand], pool: PoolSnapshot) -> Decision:
        owner, demand = pool.owner, found[pool.name]
        named = self._listed.list_named(owner.kind, owner.namespace, owner.name) if owner else [pool]
        return release_pool(
            self._cluster, pool, self._ports, pools=named, cap=self._cap, displaced_by=str(demand.claim)
        )

    def _list_recent(self) -> PoolIndex:
        """Return every pool, as it was at most `LIST_SECONDS_MAX` ago."""
        now = self._ports.clock.now()
        if now - self._recent.begun_at > LIST_SECONDS_MAX:
            self._recent = OneRead(lambda: PoolIndex(self._ports.pools.list(self._cluster)), now)
        return cast("PoolIndex", self._recent.get())

    def _start_limits(self, pools: PoolIndex, *, listed_at: float) -> None:
        """Let the leaders share what counts against the limits, if any is set.

        A pool that cannot be measured counts with the size that it was created with, until a leader
        reserves.
        """
        if self._limits is None:
            return
        measured, errors = measure_elastic(pools, self._ports)
        for name, error in errors.items():
            self._report.add_error(f"node pool {name}", error)
        try:
            self._limits.start(measured, listed_at=0.0 if errors else listed_at)
        except Exception as error:  # noqa: BLE001 -- the net of the ledger
            self._report.add_error(f"reservations of {self._cluster}", error)

    def _is_fresh(self, pod: PodView, listed_at: float) -> bool:
        """Return whether a pod began to wait just before the pools were listed, or after that.

        The list does not have a pool that was created during this sweep. A time that cannot be true
        counts as none: the pod is answered.
        """
        waited = measure_seconds(pod.unschedulable_since, self._ports.clock.now())
        return waited is not None and waited < self._ports.clock.now() - listed_at + FRESH_SECONDS

    def _for_each(self, task: Callable[[T], R], objects: Sequence[T]) -> Iterable[tuple[T, R | Exception]]:
        """Return each object with the result of its task, or the error that it raised."""
        tasks = [partial(task, each) for each in objects]
        done = get_runner(self._ports)(tasks, at_once=CALLS_AT_ONCE, until=self._ports.until)
        return zip(objects, done, strict=True)


@dataclasses.dataclass(frozen=True, slots=True)
class _Judged:
    """One pool with what was read and decided about it."""

    seen: Gathered
    decision: Decision
    owned: Sequence[PoolSnapshot]
    """Every pool of its workload."""

    @property
    def pool(self) -> PoolSnapshot:
        return self.seen.facts.pool

    @property
    def is_limited(self) -> bool:
        """Return whether the pool is to be deleted within the cap."""
        return self.decision.verdict == Verdict.DELETE and needs_cap(self.seen.facts)


def _name_owner(pool: PoolSnapshot) -> str:
    owner = pool.owner
    return f"{owner.kind} {owner.namespace}/{owner.name}" if owner else f"node pool {pool.name}"


def _find_home(pod: PodView) -> tuple[str, str, str]:
    """Return kind, namespace and name of a pod's workload; the pod's own name without kind."""
    kind = find_kind_of_pod(pod)
    return ("", pod.namespace, pod.name) if kind is None else (kind.name, pod.namespace, kind.find_owner(pod))
