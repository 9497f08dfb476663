"""Judges pools of which GKE's autoscaler adds the nodes, and ways of a list that are left.

A pool without a node serves nothing. One with a machine is not given up while its slice waits for
it. After one that was given up comes a later way of the list, and after the last one a pause.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.model.pools import PoolStatus
from tests.simulation.sim_faults import Invocation, MachineLook

if TYPE_CHECKING:
    from shared.model.names import PoolOwner
    from tests.simulation.sim_pool_bodies import Pool
    from tests.simulation.sim_workloads import Workload
    from tests.simulation.sim_world import World

LOOK_SECONDS_MAX = 30.0
"""The oldest look before a delete. What comes after a younger one is only counted."""
BOTH_SECONDS = 60.0
"""So long two pools of one slice may have nodes."""
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 60, 1800


@dataclass(frozen=True, slots=True)
class _Left:
    """A pool that was given up because it got no nodes."""

    pool: Pool
    owner: PoolOwner
    run: Invocation


class FillJudge:
    """Judges what is done with empty pools, and with two pools of one slice."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.empty_pools = 0
        """Pools that were created for the autoscaler."""
        self.failed_fills = 0
        """How often the autoscaler found no machines."""
        self.slow_stockouts = 0
        """Creations that failed after 35 minutes."""
        self.late_successes = 0
        """Creations that found machines while GKE tried again."""
        self.late_machines = 0
        """Machines and nodes that came between the last look at them and the delete."""
        self._left: dict[tuple[str, str], _Left] = {}
        """The pool that was given up last, by cluster and claim."""

    def note_look(self, cluster: str, name: str, shows: float) -> None:
        """Note that the machines of a pool were read now; the answer shows a moment."""
        run = self._world.time.get_owner()
        if isinstance(run, Invocation):
            run.machine_looks[cluster, name] = MachineLook(shows, self._world.time.note_call(0))

    # --- each act ---------------------------------------------------------------------------------

    def see_delete(self, pool: Pool, run: Invocation) -> None:
        """Judge the delete of a pool that GKE accepts now."""
        look = run.looks.get((pool.cluster, pool.name), run.began)
        made = self._find_waiting(pool, since=max(look, run.find_call_began() - LOOK_SECONDS_MAX))
        if made is None or not pool.autoscaled or pool.status != PoolStatus.RUNNING:
            return
        self._judge_machines(pool, run)
        owner = pool.owner
        if owner is not None and not pool.made_nodes:
            self._left[pool.cluster, owner.claim_hash] = _Left(pool, owner, run)

    def _judge_machines(self, pool: Pool, run: Invocation) -> None:
        """Report the delete of an empty pool if a machine is there, or other calls follow the look.

        GKE's delete has no condition on machines, so one request may be on its way as they come.
        """
        now, look = self._world.time.now, run.machine_looks.get((pool.cluster, pool.name))
        last = look is not None and look.call == self._world.time.note_call(0) - 1
        if look is not None and not last and not self._count_nodes(pool):
            text = f"{pool.name} is deleted {now - look.shows:.0f} s after the look at its machines"
            self._world.judge.report("machines kept", f"{text}, and other calls came between")
            return
        if not pool.busy or pool.short or not pool.machines or not pool.machines[-1][1].made:
            return  # no machine of it is there, and perhaps some are asked for
        came = pool.machines[-1][0]
        if look is not None and came > look.shows and run.find_call_began() - look.shows <= LOOK_SECONDS_MAX:
            self.late_machines += 1
            return
        why = f"they were read {now - look.shows:.0f} s ago" if look else "nothing read its machines"
        self._world.judge.report("machines kept", f"{pool.name} is deleted as its nodes come: {why}")

    def count_late_nodes(self, pool: Pool, run: Invocation) -> bool:
        """Count a pool whose nodes came after the last look at them; return whether it is one.

        GKE's answer that the pool does not run yet is such a look too.
        """
        key = pool.cluster, pool.name
        look, read = run.node_looks.get(key), run.pool_reads.get(key)
        if look is None and read is not None and (pool.runs_since or 0.0) > read.shows:
            look = read.shows
        if look is None or (pool.healthy_since or 0.0) <= look or run.find_call_began() - look > LOOK_SECONDS_MAX:
            return False
        self.late_machines += 1
        return True

    def see_create(self, pool: Pool, run: Invocation) -> None:
        """Judge a create that follows a pool which never had a node.

        The pool was the record of the failure, so the candidate is known only in the same turn. A
        request that was sent before the pool was made does not follow it.
        """
        owner, now = pool.owner, self._world.time.now
        left = self._left.pop((pool.cluster, owner.claim_hash), None) if owner else None
        if owner is None or left is None or not left.owner.was_made_for(owner.fingerprint):
            return
        if left.pool.made_at > run.find_call_began():
            return
        # The record of the creation is the pool's label, which is written before the request.
        passed = now - (left.owner.created_at or left.pool.made_at)
        at_once = left.run is run and "refused" not in run.notes
        judge_next(self._world, pool, left.pool.name, left.owner, passed=passed, at_once=at_once)

    def see_serving(self, pool: Pool, run: Invocation) -> None:
        """Judge an Event that says that a pool serves."""
        if pool.autoscaled and not self._count_nodes(pool) and pool.emptied_at < run.began:
            text = f"{run.label.split()[0]} says that {pool.name} serves, but it has no node"
            self._world.judge.report("true reasons", text)

    def see_sweep(self, run: Invocation, *, clean: bool) -> None:
        """Report each slice of which two pools have nodes, and had them a minute before a sweep.

        After a sweep with errors, or one that may not delete, nothing is known.
        """
        scenario = self._world.scenario
        free = scenario.mode == "active" and scenario.cap == 50 and scenario.versions == 1
        if not clean or not free or run.swapped or "stale" in run.notes:
            return
        for cluster in self._world.clusters.values():
            found: dict[str, list[Pool]] = {}
            for pool in self._world.gke.pools[cluster.name].values():
                if pool.claim_hash and self._keeps_nodes(pool, run.began - BOTH_SECONDS):
                    found.setdefault(pool.claim_hash, []).append(pool)
            for several in found.values():
                both = select_ways(several)
                if len(both) > 1 and not cluster.stop_mode:
                    names = " and ".join(each.name for each in both)
                    self._world.judge.report("one way", f"{names} of one slice have nodes for a minute")

    def _keeps_nodes(self, pool: Pool, since: float) -> bool:
        """Return whether a pool of a slice that wants pods has nodes that others have not used."""
        made = self._find_owner(pool)
        nodes = self._world.clusters[pool.cluster].list_nodes(pool)
        old = bool(nodes) and all(node.created_at < since for node in nodes)
        wanted = made is not None and not made.elastic and not made.over and made.changed_at < since
        alone = not self._serves_others(pool) and pool.used_at < since  # nor did it serve them just now
        return old and wanted and self._world.gke.is_there(pool) and alone

    def _serves_others(self, pool: Pool) -> bool:
        users = self._world.clusters[pool.cluster].list_users(pool)
        slices = {(pod.workload.uid, pod.plan.slice_name) for pod in users}
        return bool(slices - {(pool.owner.owner_uid, pool.owner.slice_name)} if pool.owner else slices)

    # --- what several of them ask -----------------------------------------------------------------

    def _count_nodes(self, pool: Pool) -> int:
        return len(self._world.clusters[pool.cluster].list_nodes(pool))

    def _find_owner(self, pool: Pool) -> Workload | None:
        made = self._world.clusters[pool.cluster].find_owner(pool)
        return made if made and pool.owner and pool.owner.owner_uid == made.uid else None

    def _find_waiting(self, pool: Pool, *, since: float) -> Workload | None:
        """Return the owner of a pool whose slice has waited for it since a time; None if not.

        A pod that was evicted elsewhere after the look is one that the delete could not know.
        """
        made = self._find_owner(pool)
        if made is None or made.over or not fits(pool, made):
            return None
        pods = self._world.clusters[pool.cluster].waiting.values()
        mine = [pod for pod in pods if pod.workload is made and pod.plan.slice_name == pool.slice_name]
        return made if any(pod.live and pod.made_at <= since for pod in mine) else None


def judge_next(world: World, pool: Pool, before: str, failed: PoolOwner, *, passed: float, at_once: bool) -> None:
    """Report a pool that is made after one that failed, if its candidate or its moment is wrong.

    Args:
        world: Whose.
        pool: The one that is made now.
        before: Name of the one that failed.
        failed: Owner of that one, with its candidate.
        passed: Seconds since the record of its creation.
        at_once: Whether nothing came between, so that the next candidate must follow.
    """
    index, count = failed.candidates
    owner = pool.owner
    if at_once and owner and owner.candidates[1] == count and owner.candidates[0] <= index < count - 1:
        text = f"{pool.name} is {owner.candidate} after {before}, which is {failed.candidate}"
        world.judge.report("candidates", text)
    rounds = min(failed.attempt // count, 10)
    pause = min(PAUSE_SECONDS * 2**rounds, PAUSE_SECONDS_MAX) if index + 1 == count else 0
    if passed < pause:
        world.judge.report("pauses", f"{pool.name} follows {before} after {passed:.0f} s, and not {pause} s")


def select_ways(pools: list[Pool]) -> list[Pool]:
    """Return the pools of a claim but for those that other slices used when the newest was made.

    Such a pool was the reason to make the newest one: it is no earlier way.
    """
    newest = max(pools, key=lambda each: each.made_at)
    return [each for each in pools if each is newest or each.lent_at < newest.made_at]


def fits(pool: Pool, made: Workload) -> bool:
    """Return whether the pods of a workload can run on a pool, by its machine."""
    shape = made.shape
    if shape.gpu != bool(pool.gpus) or pool.accelerator != shape.accelerator or pool.spot != made.spot:
        return False
    return shape.gpu or pool.topology == shape.topology
