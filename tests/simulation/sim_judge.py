"""Judges what the product does, by the truth and not by what the product was shown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.model import times
from shared.model.pools import PoolStatus
from shared.model.times import AHEAD_SECONDS_MAX
from tests.simulation.sim_faults import Invocation, PoolRead
from tests.simulation.sim_filling import LOOK_SECONDS_MAX, fits, judge_next
from tests.simulation.sim_growth import LIVE
from tests.simulation.sim_scenario import DRAIN_SECONDS, GRACE_SECONDS, START
from tests.simulation.sim_sharing import count_chips, is_never_made, judge_sharing
from tests.simulation.sim_workloads import Workload, list_pods, list_wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.model.readings import Notice
    from tests.simulation.sim_cluster import SimPod
    from tests.simulation.sim_pool_bodies import Pool
    from tests.simulation.sim_world import World

STOP_SECONDS = 5.0
"""So long after the emergency stop an act may still be on its way."""
SHARED_SECONDS = 120.0
"""For so long after its last use by another slice a pool counts as that slice's."""
HOUR_SECONDS, CREATES_PER_HOUR_MAX = 3600.0, 12
FAILURES_PER_HOUR_MAX = 9
"""The pauses allow seven tries without a node in an hour. A person may delete two records."""
_POOL = re.compile(r"node pool ([-a-z0-9]+)")
_REASON = re.compile(r"\[([a-z_]+)\]$")


@dataclass(frozen=True, slots=True)
class Violation:
    """One promise that was broken."""

    invariant: str
    text: str
    at: float
    """Seconds from the start."""

    def __str__(self) -> str:
        return f"{self.invariant}: {self.text} (at {self.at:.1f} s)"


class Judge:
    """Collects the violations of one scenario."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.violations: list[Violation] = []
        self.late_bindings = 0
        """Pods that were bound between a look of at most `LOOK_SECONDS_MAX` and the delete."""
        self.late_changes = 0
        """Pools whose workload was resumed or changed up to `LOOK_SECONDS_MAX` before."""
        self.stale_changes = 0
        """Changes of a pool whose labels a person removed while GKE still showed them."""
        self.late_edits = 0
        """Changes of a pool that became foreign between the look and GKE's acceptance."""
        self.idle_pools = 0
        """Pools of live workloads whose pods run on the pools of other workloads."""
        self.borrowed = 0
        """Pods that were bound to a pool that was idle after the end of its own workload."""
        """Pools that were deleted before their idle time was over, under a limit."""
        self.late_creates = 0
        """Second pools of a claim whose request was on its way when the other one was created."""
        self._created: dict[tuple[str, str, str], list[Pool]] = {}  # by claim and shape
        self._known_from: dict[tuple[str, str], float] = {}
        self.creates = self.deletes = 0

    def report(self, invariant: str, text: str) -> None:
        """Note a violation."""
        found = Violation(invariant, text, self._world.time.now - START)
        self._world.tell(f"VIOLATION {found}")
        self.violations.append(found)

    # --- creates ----------------------------------------------------------------------------------

    def see_create(self, pool: Pool) -> None:
        """Judge a create that GKE accepts now."""
        self.creates += 1
        self._check_mode("create", pool, creates=True)
        now, owner, scenario, run = self._world.time.now, pool.owner, self._world.scenario, self._get_run()
        self._judge_pace(pool)
        self._world.fills.see_create(pool, run)
        others = [each for each in self._world.gke.pools[pool.cluster].values() if each.owner]
        if owner is not None and owner.claim_hash and not judge_sharing(self._world, run, pool, pool.size):
            own = [each for each in others if each.claim_hash == owner.claim_hash]
            late = now - run.find_call_began() > LOOK_SECONDS_MAX  # it comes after the look of another function
            self._known_from[pool.cluster, pool.name] = now + LOOK_SECONDS_MAX * late
            gone = late and owner.owner_uid in self._world.clusters[pool.cluster].gone_at
            for other in [each for each in own if each.status in LIVE and not gone]:
                if self._known_from.get((other.cluster, other.name), other.made_at) > run.find_call_began():
                    self.late_creates += 1  # nothing can recall a request that is on its way
                elif not self._serves_others(other, now) and not self._mixes(pool):
                    self.report(
                        "one pool per claim",
                        f"{pool.name} is a second pool of {owner.kind} {owner.slice_name} beside {other.name}, "
                        f"which is {other.status} and serves no other slice",
                    )
        if scenario.limit_chips:
            chips = count_chips(others, pool, run)
            if chips > scenario.limit_chips:
                self.report("limits", f"with {pool.name} there are {chips} chips, above {scenario.limit_chips}")

    def _judge_pace(self, pool: Pool) -> None:
        """Report a create too many in an hour, and one before the pause after a failure is over.

        The pause is for a creation that failed without a node, whose pool is there and is of the
        shape that is wanted. It counts from the pool's label, which is older than the pool, and
        doubles from one minute to thirty. Between the candidates of a list there is none, and the
        next one follows. Of two with the same second, the later counts. A request follows no
        failure of a later pool.
        """
        now, owner, ways = self._world.time.now, pool.owner, max(self._world.scenario.candidates, 1)
        if owner is None or not owner.claim_hash:
            return
        made = self._created.setdefault((pool.cluster, owner.claim_hash, owner.fingerprint), [])
        made.append(pool)
        erased_at = max(each.relabelled_at for each in made)  # a person took the record of failures away
        lately = [each for each in made if now - each.made_at < HOUR_SECONDS and each.made_at > erased_at]
        in_vain = [each for each in lately if not each.made_nodes]
        if len(lately) > CREATES_PER_HOUR_MAX * ways or len(in_vain) > FAILURES_PER_HOUR_MAX * ways:
            self.report("creates per hour", f"{pool.name} is create {len(lately)}, {len(in_vain)} without a node")
        pools = self._world.gke.pools[pool.cluster].values()
        own = [each for each in pools if each.claim_hash == owner.claim_hash]
        ranks = {each.name: (each.owner.created_at or 0, each.owner.attempt) for each in own if each.owner}
        latest = max(ranks, key=ranks.__getitem__, default="")
        sent_at, refused = self._get_run().find_call_began(), "refused" in self._get_run().notes
        for other in [each for each in own if is_never_made(each) and each.made_at <= sent_at]:
            failed = other.owner
            if failed is None or failed.created_at is None or not failed.was_made_for(owner.fingerprint):
                continue
            passed, at_once = now - failed.created_at, other.name == latest and not refused
            judge_next(self._world, pool, other.name, failed, passed=passed, at_once=at_once)

    def _mixes(self, pool: Pool) -> bool:
        """Return whether several slices of a pool's workload share one of its pools.

        Then the new pool is for any slice that has none, and the leader that waits asks for it.
        """
        truth = self._world.clusters[pool.cluster]
        made = truth.find_owner(pool)
        homes: dict[str, set[str]] = {}
        for pod in truth.list_pods_of(made) if made else ():
            if pod.node is not None:
                homes.setdefault(pod.node.pool.name, set()).add(pod.plan.slice_name)
        return any(len(slices) > 1 for slices in homes.values())

    def _serves_others(self, pool: Pool, now: float) -> bool:
        """Return whether pods of other slices than its own use a pool, or did a moment ago."""
        owner, pods = pool.owner, self._list_pods_on(pool)
        foreign = [pod for pod in pods if owner is None or pod.plan.slice_name != owner.slice_name]
        return bool(foreign) or (not pods and pool.used_at > 0 and now - pool.used_at < SHARED_SECONDS)

    def see_resize(self, pool: Pool, nodes: int) -> None:
        """Judge a resize that GKE accepts now."""
        self.see_change("resize", pool)
        judge_sharing(self._world, self._get_run(), pool, nodes)
        if nodes < pool.size:
            self.report("in use", f"resize of {pool.name} from {pool.size} to {nodes} nodes lets GKE choose nodes")

    # --- deletes ----------------------------------------------------------------------------------

    def see_change(self, act: str, pool: Pool) -> None:
        """Judge any change of a pool that exists."""
        self._check_mode(act, pool, creates=act == "resize")
        if pool.owner is None:
            self._judge_foreign(act, pool)

    def _judge_foreign(self, act: str, pool: Pool) -> None:
        """Count a change of a pool that a person made foreign just now; report any other."""
        run = self._get_run()
        # A list of all pools that came after the look at this one was read for something else.
        found = [run.pool_reads.get((pool.cluster, name)) for name in (pool.name, "")]
        last = next((each for each in found if each is not None), PoolRead(run.began, run.began))
        if last.shows >= max(pool.made_at, pool.relabelled_at):
            self.report("foreign pools", f"{act} of {pool.name}, whose labels are not ours")
        elif run.find_call_began() - last.answered_at > LOOK_SECONDS_MAX:
            seconds = run.find_call_began() - last.answered_at
            self.report("foreign pools", f"{act} of {pool.name}, whose labels were read {seconds:.0f} s before")
        elif last.shows < last.answered_at:
            self.stale_changes += 1
        else:
            self.late_edits += 1

    def see_delete(self, pool: Pool) -> None:
        """Judge a delete that GKE accepts now."""
        self.deletes += 1
        self.see_change("delete", pool)
        run = self._get_run()
        for pod in self._list_pods_on(pool):
            self._judge_bound(pool, pod, run)
        if pool.owner is not None:
            self._judge_need(pool, run)
            self._judge_warmth(pool, run)
            self._world.fills.see_delete(pool, run)
            self._count_doubtful(pool, run)

    def see_remove_nodes(self, pool: Pool, names: Sequence[str]) -> None:
        """Judge the removal of nodes that GKE accepts now."""
        self.see_change("remove_nodes", pool)
        run = self._get_run()
        for pod in self._list_pods_on(pool):
            if pod.node is not None and pod.node.name in names:
                self._judge_bound(pool, pod, run)

    def _judge_bound(self, pool: Pool, pod: SimPod, run: Invocation) -> None:
        now, made, owner = self._world.time.now, pod.workload, pool.owner
        if pod.deleting_since is not None and now - pod.deleting_since > DRAIN_SECONDS:
            return
        own = owner is not None and (owner.kind, owner.name) == (made.kind, made.name)
        if own and pool.healthy_since is None and self._world.scenario.candidates > 1 and not pool.gpus:
            return  # a TPU slice without all of its hosts cannot go on
        if own and made.terminal and made.terminal_since and now - made.terminal_since > DRAIN_SECONDS - 1:
            return
        look = run.looks.get((pool.cluster, pool.name), run.began)
        # Nothing can recall a request that is on its way, for example of an instance that freezes.
        if pod.bound_at > look and run.find_call_began() - look <= LOOK_SECONDS_MAX:
            self.late_bindings += 1
            return
        state = "ends" if pod.deleting_since is not None else "runs"
        why = f"bound after a look {now - look:.0f} s old" if pod.bound_at > look else "bound before the look"
        told = " under suspend" if own and made.suspended else ""
        where = f"pool {pool.name} ({pool.status}) with pod {pod.view.name}, which {state}{told}"
        self.report("in use", f"{run.label.split()[0]} deletes {where}: {why}{self._describe_doubt()}")

    def _judge_need(self, pool: Pool, run: Invocation) -> None:
        """Report the delete of a whole pool that a live slice needs and has nothing else for."""
        owner, now = pool.owner, self._world.time.now
        cluster = self._world.clusters[pool.cluster]
        made = cluster.find_owner(pool)
        if owner is None or made is None or owner.owner_uid != made.uid:
            return
        if made.suspended and not made.terminal and made.deleting_since is None:
            self._judge_suspension(pool, made)
        if made.over:
            return
        if pool.healthy_since is None or self._list_pods_on(pool) or not fits(pool, made):
            return
        if not any(made.elastic or plan.slice_name == owner.slice_name for plan in list_pods(made)):
            return
        recent = max(pool.used_at, pool.healthy_since)
        wanting = [
            pod
            for pod in cluster.waiting.values()
            if pod.workload is made and pod.live and (made.elastic or pod.plan.slice_name == owner.slice_name)
        ]
        restarting = now - recent < GRACE_SECONDS and not cluster.list_pods_of(made)
        if wanting and all(pod.made_at < now - 10 for pod in wanting):
            restarting = True
        if restarting and now - made.changed_at < LOOK_SECONDS_MAX:
            self.late_changes += 1
        elif restarting and not self._world.fills.count_late_nodes(pool, run):
            self.report(
                "needed pools",
                f"delete of {pool.name} ({pool.status}), whole and empty for {now - recent:.0f} s, which "
                f"{made.kind} {made.name} needs{self._describe_doubt()}",
            )

    def _judge_warmth(self, pool: Pool, run: Invocation) -> None:
        """Report the delete of a whole, marked pool before its idle time is over."""
        owner, scenario, now = pool.owner, self._world.scenario, self._world.time.now
        truth = self._world.clusters[pool.cluster]
        made = truth.find_owner(pool)
        own = bool(made and owner and made.uid == owner.owner_uid)
        marks = [node.mark for node in truth.list_nodes(pool)]
        if owner is None or not owner.idle_seconds or (own and made and not made.terminal):
            return
        if pool.status != PoolStatus.RUNNING or not marks:
            return
        since = min((mark.since for mark in marks if mark), default=now)
        idle = now - since >= min(owner.idle_seconds, scenario.idle_seconds) - 1
        if self._world.fills.count_late_nodes(pool, run):
            return
        if truth.gone_at.get(owner.owner_uid, 0.0) > self._find_last_look(pool, run, marked=any(marks)):
            self.late_changes += 1  # as surplus, while its owner lived: nothing recalls the request
        elif not idle or not all(mark and mark.closed for mark in marks):
            text = f"delete of {pool.name}, idle for {now - since:.0f} s"
            self.report("idle time", f"{text}{'' if all(marks) else ', with nodes that were not closed'}")

    def _find_last_look(self, pool: Pool, run: Invocation, *, marked: bool) -> float:
        """Return since when a surplus pool may lose its owner and be deleted all the same.

        The owner is read before the pods on the pool, in a batch some seconds before, and GKE's
        delete has no condition on it. An old look counts as none, and so does that at a marked
        pool: its owner was over before.
        """
        call, look = run.find_call_began(), run.looks.get((pool.cluster, pool.name), run.began)
        return call if marked or call - look > LOOK_SECONDS_MAX else min(look - times.SHARED_SECONDS, call)

    def see_binding(self, pool: Pool, made: Workload) -> None:
        """Count the use of a pool whose own workload is over."""
        if (owner := pool.owner) is not None and owner.idle_seconds and owner.owner_uid != made.uid:
            own = self._world.clusters[pool.cluster].find_owner(pool)
            self.borrowed += own is None or own.uid != owner.owner_uid or bool(own.terminal)

    def _judge_suspension(self, pool: Pool, made: Workload) -> None:
        """Report the delete of a whole pool whose workload may resume within the grace."""
        told, owner = tells_suspension(self._world, made), pool.owner
        # docs/decisions/0017-nets.md: without a time that can be true, the label counts.
        counted = made.suspended_at if told else (owner and owner.created_at) or pool.made_at
        waited = self._world.time.now - counted
        slices = {plan.slice_name for plan in list_wanted(made)}
        wanted = bool(slices) and (made.elastic or (owner is not None and owner.slice_name in slices))
        if wanted and waited < GRACE_SECONDS - 2 and pool.healthy_since is not None and fits(pool, made):
            self.report(
                "needed pools",
                f"delete of {pool.name} ({pool.status}), whose {made.kind} is suspended for "
                f"{waited:.0f} s{self._describe_doubt()}",
            )

    def _count_doubtful(self, pool: Pool, run: Invocation) -> None:
        """Count a delete of a sweep that no word of the owner asks for; see that the cap holds."""
        owner = pool.owner
        made = self._world.clusters[pool.cluster].find_owner(pool)
        found = owner is not None and made is not None and owner.owner_uid in ("", made.uid)
        if not run.sweeping or (found and made is not None and (made.terminal or made.suspended)):
            return
        run.doubtful[pool.cluster] += 1
        count = run.doubtful[pool.cluster]
        if count > self._world.scenario.cap:
            self.report("cap", f"one sweep deletes {count} pools without a word of their owners: {pool.name}")

    def _describe_doubt(self) -> str:
        return "; endpoints swapped" if self._world.faults.was_swapped(self._get_run().began) else ""

    # --- words ------------------------------------------------------------------------------------

    def see_notice(self, cluster: str, notice: Notice) -> None:
        """Judge an Event: a pool that serves must run, and belong to the workload."""
        if not notice.message.endswith("[pool_serves]"):
            return
        named = _POOL.search(notice.message)
        pool = self._world.gke.pools[cluster].get(named[1]) if named else None
        run = self._get_run()
        stale = "stale" in run.notes
        made = self._find_told(cluster, notice)
        if pool is not None and pool.owner is not None and made is not None and not stale:
            uid = pool.owner.owner_uid
            if uid not in ("", made.uid):
                self.report(
                    "true reasons", f"{run.label.split()[0]} says that {pool.name} of {uid} serves {made.uid}"
                )
        if pool is not None and not stale:
            self._world.fills.see_serving(pool, run)
        if named and not stale and (pool is None or pool.status == PoolStatus.STOPPING):
            since = self._world.gke.stopped_at.get((cluster, named[1]), 0.0)
            if since < run.began:
                self.report(
                    "true reasons", f"{run.label.split()[0]} says that {named[1]} serves, but it is ending"
                )

    def _find_told(self, cluster: str, notice: Notice) -> Workload | None:
        """Return the workload that an Event is about; none if another of its name is there now."""
        truth = self._world.clusters[cluster]
        pod, made = truth.pods.get(notice.uid), truth.workloads.get((notice.kind, notice.name))
        return pod.workload if pod else made if made and made.uid == notice.uid else None

    # --- what several of them ask -----------------------------------------------------------------

    def _check_mode(self, act: str, pool: Pool, *, creates: bool) -> None:
        mode = self._world.scenario.mode
        if mode == "report-only" or (creates and mode == "no-create"):
            self.report("mode", f"{act} of {pool.name} in mode {mode}")
        truth, run = self._world.clusters[pool.cluster], self._get_run()
        stops = truth.stop_mode == "report-only" or (creates and truth.stop_mode == "no-create")
        if stops and (seconds := run.find_call_began() - truth.stopped_at) > STOP_SECONDS:
            text = f"{act} of {pool.name} {seconds:.0f} s after the emergency stop"
            self.report("mode", f"{text}{self._describe_doubt()}")

    def _list_pods_on(self, pool: Pool) -> list[SimPod]:
        """Return the unfinished accelerator pods on a pool."""
        return [pod for pod in self._world.clusters[pool.cluster].list_users(pool) if not pod.view.finished]

    def _get_run(self) -> Invocation:
        run = self._world.time.get_owner()
        return run if isinstance(run, Invocation) else Invocation("nothing", 0, self._world.time.now)


def read_reason(message: str) -> str:
    """Return the reason at the end of an Event's text; empty without one."""
    found = _REASON.search(message)
    return found[1] if found else ""


def tells_suspension(world: World, made: Workload) -> bool:
    """Return whether a workload says since when it is suspended, with a time that can be true."""
    return made.suspended_since is not None and world.scenario.skew_seconds <= AHEAD_SECONDS_MAX
