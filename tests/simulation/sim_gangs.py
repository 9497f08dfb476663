"""Judges what is done for workloads whose slices are of use only together.

A *gang* is one that waits, suspended, for the capacity of all its slices, or a running JobSet of
which only a part has its pools.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from shared.core import labels
from shared.core.identity.pools import PoolStatus
from tests.simulation.sim_creations import NO_CAPACITY
from tests.simulation.sim_faults import Invocation
from tests.simulation.sim_scenario import EVENT_SECONDS
from tests.simulation.sim_workloads import list_pods, list_wanted

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import SimCluster, SimPod
    from tests.simulation.sim_pool_bodies import Pool
    from tests.simulation.sim_workloads import Workload
    from tests.simulation.sim_world import World

STALE_SECONDS = 300.0
"""The oldest answer of GKE in any scenario."""
WAIT_SECONDS = 1800
"""How long a part is held where the workload does not say it."""
PAUSE_SECONDS_MAX = 2300.0
"""A little more than the longest pause between two rounds."""
CHANGE_SECONDS = 30.0
"""What changed so shortly before a sweep is left to the next one."""
CREATION_SECONDS = 60.0
"""The sweep asks what GKE says of a creation when it has run for so long."""
BROKEN = (PoolStatus.ERROR, PoolStatus.RUNNING_WITH_ERROR)


class GangJudge:
    """Judges each resume, each suspension and each return of pools, and what sweeps leave."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.resumes = self.releases = self.returns = 0
        self._had: set[str] = set()
        """The UIDs of workloads that had their one resume."""
        self._ran_until: dict[tuple[str, str], float] = {}
        """When a pool of a slice last ceased to run, by the owner's UID and the slice."""
        self._held: dict[tuple[str, str], float] = {}
        """Since which sweep a running pool of an incomplete gang is known, by cluster and name."""
        self._oldest: dict[str, float] = {}
        """The first creation of a pool, by the owner's UID."""
        self._ended_at: dict[str, float] = {}
        """When a round without success was last seen to be over, by the owner's UID."""
        self._released_at = -math.inf

    # --- each act ---------------------------------------------------------------------------------

    def see_status(self, pool: Pool) -> None:
        """Note that a pool is about to have another status."""
        if pool.status == PoolStatus.RUNNING and pool.owner is not None:
            self._ran_until[pool.owner.owner_uid, pool.owner.slice_name] = self._world.time.now

    def see_change(self, cluster: SimCluster, made: Workload, *, suspended: bool | None) -> None:
        """Judge a change of a workload by the product, which is about to be done."""
        run, report = self._world.time.get_owner(), self._world.judge.report
        since = (
            run.began - (STALE_SECONDS if "stale" in run.notes else 0.0) if isinstance(run, Invocation) else 0.0
        )
        slices = {plan.slice_name for plan in list_wanted(made)}
        running = set(self._find_running(cluster, made))
        known = {name for name in slices if self._ran_until.get((made.uid, name), -1.0) >= since}
        if self._world.scenario.mode == "report-only":
            report("mode", f"{made.kind} {made.name} is changed in mode report-only")
        if suspended is True:
            self.releases += 1
            self._released_at = self._world.time.now
            self._had.discard(made.uid)
            self._ended_at[made.uid] = self._world.time.now
            if cluster.stop_mode and isinstance(run, Invocation) and cluster.stopped_at < run.began:
                report("gangs", f"{made.name} is suspended under the emergency stop")
            if slices <= running and not self._is_spread(cluster, made):
                report("gangs", f"{made.name} is suspended, and all {len(slices)} slices have their pools")
        elif suspended is False:
            self.resumes += 1
            lacking = sorted(slices - running - known - self._list_whole(cluster, made))
            if lacking:
                report("gangs", f"{made.name} is resumed, and {len(lacking)} of {len(slices)} slices have no pool")
            if made.uid in self._had:
                report("gangs", f"{made.name} is resumed twice")
            self._had.add(made.uid)

    def see_return(self, pool: Pool, made: Workload) -> None:
        """Judge the delete of a pool whose workload waits for its capacity."""
        cluster, now = self._world.clusters[pool.cluster], self._world.time.now
        slices = {plan.slice_name for plan in list_wanted(made)}
        self.returns += 1
        if pool.autoscaled:
            return  # it gets no nodes while there are no pods, so another one takes its place
        if pool.slice_name not in slices or pool.status != PoolStatus.RUNNING:
            return
        owned = self._world.gke.list_owned(pool.cluster, made)
        oldest = min(self._oldest.get(made.uid, now), *(each.made_at for each in owned))
        self._oldest[made.uid] = oldest
        running, run = self._find_running(cluster, made), self._world.time.get_owner()
        if slices <= set(running):
            # The last pool may be ready only when the others are being given back, or about to be.
            began = run.began if isinstance(run, Invocation) else now
            seen = all(each.runs_since is not None and each.runs_since < began for each in running.values())
            if seen and now - self._ended_at.get(made.uid, 0.0) > PAUSE_SECONDS_MAX:
                self._world.judge.report("gangs", f"{pool.name} is given back, and all slices have their pools")
            return
        ended_at, self._ended_at[made.uid] = self._ended_at.get(made.uid, -math.inf), now
        if all(each.made_at <= ended_at for each in owned):
            return  # nothing was created since the round ended, so what comes late goes in the pause
        if any(each.status != PoolStatus.RUNNING and each.recall_machines(now).errors for each in owned):
            return  # GKE has told that another slice finds no capacity, so this round cannot succeed
        if now - oldest < min(_read_bound(made), self._world.scenario.release_seconds or math.inf) - 1:
            text = f"{pool.name} is given back {now - oldest:.0f} s after the first creation"
            self._world.judge.report("gangs", text)

    def has_ended(self, uid: str, since: float) -> bool:
        """Return whether a round of a workload ended without success after some moment."""
        return self._ended_at.get(uid, -math.inf) > since

    # --- sweeps -----------------------------------------------------------------------------------

    def see_sweep(self, run: Invocation, *, clean: bool) -> None:
        """Judge what a sweep leaves; after one with errors nothing is known."""
        scenario = self._world.scenario
        if not scenario.gang_seconds:
            return
        doubtful = run.swapped or "stale" in run.notes or scenario.mode == "report-only"
        if not clean or doubtful or self._world.faults.was_swapped(run.began):
            self._held.clear()
            return
        held: dict[tuple[str, str], float] = {}
        for cluster in self._world.clusters.values():
            if cluster.stop_mode or cluster.stopped_at > run.began:
                continue
            for made in cluster.workloads.values():
                if made.waits:
                    held |= self._judge_held(cluster, made, run.began)
                elif not made.suspended and made.changed_at < run.began - CHANGE_SECONDS:
                    self._note_awake(made)
                    if run.doubtful[cluster.name] < scenario.cap:  # else the next ways are left to the next sweep
                        self._judge_running(cluster, made, run.began)
        self._held = held

    def _note_awake(self, made: Workload) -> None:
        if labels.CAPACITY_FIRST in made.marks:
            self._had.add(made.uid)

    def _judge_held(self, cluster: SimCluster, made: Workload, began: float) -> dict[tuple[str, str], float]:
        """Report each pool of an incomplete gang that is held past its time; return those held."""
        running = self._find_running(cluster, made)
        # What a limit refuses, or a stranger's pool of that name, gives nothing back.
        refused = bool(self._world.scenario.limit_chips) or self._is_taken(made)
        if refused or {plan.slice_name for plan in list_wanted(made)} <= running.keys():
            return {}
        owned = self._world.gke.list_owned(cluster.name, made)
        asked = [each.made_at for each in owned if each.slice_name not in running]
        # Only GKE ends a round (docs/capacity.md). If first asked now, it does in the next sweep.
        just_asked = bool(asked) and min(asked) >= began
        found = {}
        for pool in running.values():
            if cluster.list_users(pool):
                continue
            since = self._held.get((cluster.name, pool.name), self._world.time.now)
            found[cluster.name, pool.name] = since
            if began - since >= _read_bound(made) and not just_asked:
                lacks = f"{len(running)} of its slices have pools"
                text = f"{pool.name} of {made.name} is held for {began - since:.0f} s, and only {lacks}"
                self._world.judge.report("gangs", text)
        return found

    def _judge_running(self, cluster: SimCluster, made: Workload, began: float) -> None:
        """Report a running JobSet of which only a part has had its pools for too long."""
        scenario, seconds = self._world.scenario, self._world.scenario.release_seconds
        if not seconds or made.kind != "JobSet" or made.over or made.shape.gpu or scenario.skew_seconds:
            return
        if scenario.limit_chips:
            return  # what a limit refuses gives nothing back
        running = self._find_running(cluster, made)
        long = [pool for pool in running.values() if pool.made_at < began - seconds - CHANGE_SECONDS]
        if not any(pool.runs_since is not None and pool.runs_since < began for pool in long):
            return
        leaders = [pod for pod in cluster.list_pods_of(made) if pod.leads]
        waiting = [pod for pod in leaders if _waits(pod, math.inf)]
        if self._released_at >= began or not all(self._starves(cluster, pod, began) for pod in waiting):
            return  # one workload in a sweep, and none whose slice lacks its pool for another cause
        if any(_was_served(pod, began) for pod in leaders):
            return  # its pool was on its way when the sweep looked
        lacking = []
        for pod in sorted(waiting, key=lambda each: each.view.unschedulable_since or 0.0):
            ran = self._ran_until.get((made.uid, pod.plan.slice_name), -1.0) >= began
            held = pod.plan.slice_name in running and not self._is_swapped(cluster, pod, began)
            if not ran and not held and _waits(pod, began - seconds - 1):
                lacking.append(pod.plan.slice_name)
        for name in lacking[self._count_lent(cluster, made) :]:
            text = f"{name} has no pool for {seconds} s, and {made.name} keeps {len(running)}"
            self._world.judge.report("gangs", text)

    def _count_lent(self, cluster: SimCluster, made: Workload) -> int:
        """Return how many of its pools only others use, which no release gives back.

        So they are to spare, that of the Go provisioner too.
        """
        other = self._world.gke.pools[cluster.name].get(f"tpu-provisioner-{made.name}")
        owned = [*self._list_running(cluster, made), *([other] if other else [])]
        users = [{pod.workload.uid for pod in cluster.list_users(pool)} for pool in owned]
        return sum(bool(found) and made.uid not in found for found in users)

    def _is_taken(self, made: Workload) -> bool:
        """Return whether a stranger's pool may have the name of one of a workload's."""
        return any(act.verb == "take-name" and act.name == made.name for act in self._world.scenario.acts)

    def _starves(self, cluster: SimCluster, waiting: SimPod, began: float) -> bool:
        """Return whether GKE told before a sweep that it has no capacity for a slice's pool.

        Not if it has tried again since then: while machines come, it does not tell.
        """
        made, name = waiting.workload, waiting.plan.slice_name
        owned = [pool for pool in self._world.gke.list_owned(cluster.name, made) if pool.slice_name == name]
        if not made.pinned and self._has_free(cluster, made):
            return False  # its pods go there
        newest = max(owned, key=lambda pool: pool.made_at, default=None)
        asked_after = CHANGE_SECONDS if newest and newest.autoscaled else CREATION_SECONDS
        if newest is None or newest.made_at > began - asked_after:
            return False
        tries = PoolStatus.RUNNING if newest.autoscaled else PoolStatus.PROVISIONING
        answer = newest.recall_machines(before := began - CHANGE_SECONDS)
        again = any(each.coming for each in (answer, *(later for at, later in newest.machines if at > before)))
        told = newest.short == newest.size and answer.errors and not again
        failed = newest.status == PoolStatus.ERROR and any(code in newest.error for code in NO_CAPACITY)
        return failed or (newest.status == tries and bool(told))

    def _has_free(self, cluster: SimCluster, made: Workload) -> bool:
        """Return whether the autoscaler may fill a pool whose own slice runs on that of another."""
        runs = {pod.plan.slice_name for pod in cluster.list_pods_of(made) if pod.units and pod.node}
        owned = self._world.gke.list_owned(cluster.name, made)
        filled = [pool for pool in owned if pool.autoscaled and pool.status == PoolStatus.RUNNING]
        return any(pool.slice_name in runs for pool in filled if not cluster.list_nodes_of(pool.name))

    def _is_swapped(self, cluster: SimCluster, waiting: SimPod, began: float) -> bool:
        """Return whether other slices use each pool that runs, that of the slice that waits too."""
        made, name = waiting.workload, waiting.plan.slice_name
        bound = [each for each in cluster.list_pods_of(made) if each.live and each.units and each.node is not None]
        ceased = any(uid == made.uid and at >= began for (uid, _), at in self._ran_until.items())
        if ceased or any(each.plan.slice_name == name for each in bound):
            return False
        used = {each.node.pool.name for each in bound if each.node and each.bound_at < began - CHANGE_SECONDS}
        return all(each.name in used for each in self._list_running(cluster, made))

    def _is_spread(self, cluster: SimCluster, made: Workload) -> bool:
        """Return whether slices that have all of their pods leave too few pools for the others."""
        hosts = Counter(plan.slice_name for plan in list_wanted(made))
        bound = [pod for pod in cluster.list_pods_of(made) if pod.live and pod.units and pod.node]
        placed = Counter(pod.plan.slice_name for pod in bound)
        whole = {name for name, count in hosts.items() if placed[name] >= count}
        taken = {pod.node.pool.name for pod in bound if pod.node and pod.plan.slice_name in whole}
        free = [pool for pool in self._list_running(cluster, made) if pool.name not in taken]
        return len(free) < len(hosts) - len(whole)

    def _find_running(self, cluster: SimCluster, made: Workload) -> dict[str, Pool]:
        """Return a pool that runs of each slice that has one."""
        return {pool.slice_name: pool for pool in self._list_running(cluster, made)}

    def _list_running(self, cluster: SimCluster, made: Workload) -> list[Pool]:
        """Return the pools that run.

        One that the autoscaler fills must have nodes, and keeps them only while there are pods.
        """
        return [
            pool
            for pool in self._world.gke.list_owned(cluster.name, made)
            if pool.status == PoolStatus.RUNNING
            and (not pool.autoscaled or (cluster.list_nodes_of(pool.name) and not made.waits))
        ]

    def _list_whole(self, cluster: SimCluster, made: Workload) -> set[str]:
        """Return the slices whose pool has errors and all of its nodes, so that it serves."""
        broken = [each for each in self._world.gke.list_owned(cluster.name, made) if each.status in BROKEN]
        return {each.slice_name for each in broken if len(cluster.list_nodes_of(each.name)) >= each.size}

    # --- at rest ----------------------------------------------------------------------------------

    def judge_rest(self, cluster: SimCluster, made: Workload) -> None:
        """Report a workload that waits without a word, or although there is capacity for it."""
        world = self._world
        told = self._list_told(cluster, made)
        if not told:
            world.judge.report("every demand answered", f"silence for {made.kind} {made.name}, which waits")
        elif self._is_left(cluster, made):
            text = f"{max(told)[1]!r} is the last word for {made.kind} {made.name}, and there is room"
            world.judge.report("served when there is capacity", text)

    def leaves_room(self) -> bool:
        """Return whether a workload waits although there is capacity for it."""
        clusters = self._world.clusters.values()
        return any(
            self._is_left(each, made) for each in clusters for made in each.workloads.values() if made.waits
        )

    def _list_told(self, cluster: SimCluster, made: Workload) -> list[tuple[float, str]]:
        events = cluster.events.get(made.uid, {}).items()
        return [(at, message) for (_, message), at in events if self._world.time.now - at <= EVENT_SECONDS]

    def _is_left(self, cluster: SimCluster, made: Workload) -> bool:
        world = self._world
        plain = world.scenario.mode == "active" and not world.scenario.limit_chips and made.tolerates
        # Where a stranger's pool has the name of a slice, that slice gets none.
        taken = self._is_taken(made)
        # The rounds of others take room and leave it, at any moment of the pause.
        moves = any(each.waits and each is not made for each in cluster.workloads.values())
        owned = world.gke.list_owned(cluster.name, made)
        tries = any(pool.status == PoolStatus.PROVISIONING for pool in owned)  # the next way follows its failure
        short = taken or moves or tries or world.faults.is_short(cluster.name) or self._is_borrowed(cluster, made)
        return plain and not short and self._has_room(cluster, made)

    def _is_borrowed(self, cluster: SimCluster, made: Workload) -> bool:
        """Return whether pods of other workloads keep one of its pools that does not count.

        It has errors, is not the only one of its slice, or is the autoscaler's. It is not replaced,
        and its machines are not free, until these pods end (docs/capacity.md).
        """
        owned = self._world.gke.list_owned(cluster.name, made)
        names = [pool.slice_name for pool in owned]
        held = {
            node.pool.name
            for node in cluster.nodes.values()
            if any(pod.units and pod.workload is not made for pod in node.pods)
        }
        return any(
            pool.name in held and (pool.status in BROKEN or pool.autoscaled or names.count(pool.slice_name) > 1)
            for pool in owned
        )

    def _has_room(self, cluster: SimCluster, made: Workload) -> bool:
        """Return whether one zone has room for all slices, whatever zone each would take first.

        A workload without slices waits for none, and its owner is told so.
        """
        gke, slices = self._world.gke, len(list_wanted(made))
        own = dict.fromkeys(self._world.list_zones(made), 0)
        for pool in gke.list_owned(cluster.name, made):
            own[pool.zone] += pool.size - pool.short
        return any(gke.find_room(cluster.name, zone) + own[zone] >= slices > 0 for zone in own)


def _read_bound(made: Workload) -> float:
    return float(made.marks.get(labels.CAPACITY_FIRST_SECONDS, WAIT_SECONDS))


def _was_served(pod: SimPod, since: float) -> bool:
    """Return whether a pod was bound since a moment to a pool whose nodes came since then."""
    whole_since = pod.node.pool.healthy_since if pod.node else None
    return whole_since is not None and min(whole_since, pod.bound_at) >= since


def _waits(pod: SimPod, before: float) -> bool:
    since = pod.view.unschedulable_since
    wanted = any(plan.key == pod.plan.key for plan in list_pods(pod.workload))
    return wanted and pod.live and pod.node is None and since is not None and since < before
