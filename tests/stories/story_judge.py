"""Judges what the two functions do, by the truth and not by what they were shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.model.names import Owner, parse_owner
from shared.model.pools import PoolStatus
from tests.simulation.sim_faults import Invocation, PoolRead
from tests.simulation.sim_judge import Violation
from tests.simulation.sim_scenario import DRAIN_SECONDS, GRACE_SECONDS, START
from tests.simulation.sim_workloads import list_pods

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import SimCluster, SimPod
    from tests.simulation.sim_pool_bodies import Pool
    from tests.simulation.sim_workloads import Workload
    from tests.stories.story_world import StoryWorld

LOOK_SECONDS_MAX = 30.0
LIVE = (PoolStatus.RUNNING, PoolStatus.RUNNING_WITH_ERROR, PoolStatus.PROVISIONING, PoolStatus.RECONCILING)
STOP_SECONDS = 12.0


def read_owner(pool: Pool) -> Owner | None:
    return parse_owner(pool.labels)


def is_of(pool: Pool, made: Workload) -> bool:
    owner = read_owner(pool)
    return owner is not None and owner.key[::2] == (made.kind, made.name) and owner.uid in ("", made.uid)


def fits(pool: Pool, made: Workload) -> bool:
    shape = made.shape
    return (
        pool.machine_type == shape.machine_type
        and pool.spot == made.spot
        and (made.tolerates or not pool.spot)
        and (made.elastic or pool.size == shape.hosts)
    )


def _counts(pool: Pool) -> bool:
    """Return whether a limit counts a pool: one that failed without machines does not."""
    return pool.status != PoolStatus.ERROR or bool(pool.made_nodes)


class StoryJudge:
    """Collects the violations of one story."""

    def __init__(self, world: StoryWorld) -> None:
        self._world = world
        self.violations: list[Violation] = []
        self.creates = self.deletes = self.late_bindings = self.late_creates = 0

    def report(self, invariant: str, text: str) -> None:
        violation = Violation(invariant, text, self._world.time.now - START)
        self._world.tell(f"VIOLATION {violation}")
        self.violations.append(violation)

    def see_binding(self, pool: Pool, made: Workload) -> None:
        """Note nothing: any pod may use any pool that fits."""

    # --- creates ----------------------------------------------------------------------------------

    def see_create(self, pool: Pool) -> None:
        """Judge a create that GKE accepts now."""
        self.creates += 1
        self._check_stop("create", pool, creates=True)
        made, run, now = self._find_workload(pool), self._get_run(), self._world.time.now
        if made is None:
            return
        others = [each for each in self._world.gke.pools[pool.cluster].values() if is_of(each, made)]
        serving = [each for each in others if fits(each, made) and self._may_serve(each, made)]
        sent = run.find_call_began()
        known = [each for each in serving if each.made_at <= sent - 5]
        most = max(made.replicas, 1) if not made.elastic else 1
        strangers = [each for each in known if self._is_taken(each, made)]
        if fits(pool, made) and len(known) - min(len(strangers), 1) >= most and now - made.changed_at > 60:
            names = ", ".join(f"{each.name} ({each.status})" for each in known)
            self.report(
                "no pool too many", f"{pool.name} beside {names} for {most} slices of {made.kind} {made.name}"
            )
        elif len(serving) - min(len(strangers), 1) >= most:
            self.late_creates += 1
        limit = self._world.scenario.limit_chips
        if limit:
            chips = sum(
                each.size * each.units for each in self._world.gke.pools[pool.cluster].values() if each.owner
            )
            chips += pool.size * pool.units
            if chips > limit:
                self._world.tell(
                    str([(each.name, each.status, each.node_count, each.size, each.short) for each in pools])
                )
                self.report("limits", f"with {pool.name} there are {chips} chips, above {limit}")

    def _may_serve(self, pool: Pool, made: Workload) -> bool:
        """Return whether a pool serves a slice of its workload, or will without a word of trouble."""
        if pool.status == PoolStatus.PROVISIONING:
            return not pool.short or self._world.time.now - pool.made_at < 60
        if pool.status not in LIVE:
            return False
        return pool.healthy_since is not None and self._world.time.now - pool.healthy_since < 900

    def _is_taken(self, pool: Pool, made: Workload) -> bool:
        users = self._list_users(pool)
        return bool(users) and all(pod.workload is not made for pod in users)

    # --- what takes away --------------------------------------------------------------------------

    def see_change(self, act: str, pool: Pool) -> None:
        """Judge any change of a pool that exists."""
        self._check_stop(act, pool, creates=act == "raise_maximum")
        if read_owner(pool) is not None:
            return
        run = self._get_run()
        reads = [run.pool_reads.get((pool.cluster, name)) for name in (pool.name, "")]
        last = next((each for each in reads if each is not None), PoolRead(run.began, run.began))
        if last.shows >= max(pool.made_at, pool.relabelled_at):
            self.report("foreign pools", f"{act} of {pool.name}, whose labels are not ours")

    def see_resize(self, pool: Pool, nodes: int) -> None:
        self.report("no resize", f"{pool.name} is resized to {nodes}")

    def see_remove_nodes(self, pool: Pool, names: object) -> None:
        self.report("no resize", f"{pool.name} loses {names}")

    def see_delete(self, pool: Pool) -> None:
        """Judge a delete that GKE accepts now."""
        self.deletes += 1
        self.see_change("delete", pool)
        run = self._get_run()
        for pod in self._list_users(pool):
            if not pod.view.finished:
                self._judge_bound(pool, pod, run)
        self._judge_need(pool)

    def _judge_bound(self, pool: Pool, pod: SimPod, run: Invocation) -> None:
        now, made = self._world.time.now, pod.workload
        if pod.deleting_since is not None and now - pod.deleting_since > DRAIN_SECONDS:
            return
        own = is_of(pool, made)
        if own and pool.healthy_since is None and not pool.gpus:
            return  # a TPU slice without all of its hosts cannot go on
        look = run.looks.get((pool.cluster, pool.name), run.began)
        if pod.bound_at > look and run.find_call_began() - look <= LOOK_SECONDS_MAX:
            self.late_bindings += 1
            return
        state = "ends" if pod.deleting_since is not None else "runs"
        when = "after" if pod.bound_at > look else "before"
        self.report(
            "in use",
            f"delete of {pool.name} ({pool.status}) with {pod.view.name}, which {state}, bound {when} the look",
        )

    def _judge_need(self, pool: Pool) -> None:
        """Report the delete of a whole pool without which its live workload has too few."""
        made, now = self._find_workload(pool), self._world.time.now
        if made is None or pool.healthy_since is None or not fits(pool, made):
            return
        if made.suspended and not made.terminal and made.deleting_since is None:
            if now - made.suspended_at < GRACE_SECONDS - 2 and made.suspended_since is not None:
                self.report(
                    "needed pools", f"delete of {pool.name}, whose {made.kind} is suspended since a moment"
                )
            return
        if made.over or now - made.changed_at < LOOK_SECONDS_MAX:
            return
        cluster = self._world.clusters[pool.cluster]
        pools = [
            each for each in self._world.gke.pools[pool.cluster].values() if is_of(each, made) and each is not pool
        ]
        left = [each for each in pools if each.healthy_since is not None and fits(each, made)]
        slices = {plan.slice_name for plan in list_pods(made)}
        elsewhere = {
            pod.plan.slice_name
            for pod in cluster.list_pods_of(made)
            if pod.node is not None and not is_of(pod.node.pool, made)
        }
        unserved = {pod.plan.slice_name for pod in cluster.list_pods_of(made) if pod.live and pod.node is None}
        if len(left) < len(slices - elsewhere) and (unserved or not cluster.list_pods_of(made)):
            self.report(
                "needed pools",
                f"delete of {pool.name} ({pool.status}), whole; {len(left)} are left for {len(slices)} slices of "
                f"{made.kind} {made.name}",
            )

    # --- at rest ----------------------------------------------------------------------------------

    def judge_rest(self) -> None:
        """Report what is not as it should be now that nothing happens any more."""
        for cluster in self._world.clusters.values():
            for pool in self._world.gke.pools[cluster.name].values():
                self._judge_end(cluster, pool)
            for made in cluster.workloads.values():
                self._judge_served(cluster, made)

    def _judge_end(self, cluster: SimCluster, pool: Pool) -> None:
        owner = read_owner(pool)
        if owner is None or pool.status in (PoolStatus.STOPPING, PoolStatus.PROVISIONING) or self._stops():
            return
        if owner.slot is None:
            return
        made = cluster.workloads.get((owner.kind, owner.name))
        gone = made is None or owner.uid not in ("", made.uid)
        over = made is not None and (made.terminal or made.suspended or made.deleting_since is not None)
        if (gone or over) and not [pod for pod in self._list_users(pool) if not pod.view.finished]:
            self.report(
                "every pool ends", f"{pool.name} ({pool.status}) stays: its owner is {'gone' if gone else 'over'}"
            )
        elif made is not None and not gone and not over:
            self._judge_surplus(cluster, made)

    def _judge_surplus(self, cluster: SimCluster, made: Workload) -> None:
        pods = [pod for pod in cluster.list_pods_of(made) if pod.live]
        if len(pods) != len(list_pods(made)) or any(pod.node is None for pod in pods):
            return
        pools = [
            each
            for each in self._world.gke.pools[cluster.name].values()
            if is_of(each, made) and each.status in LIVE
        ]
        slices = {plan.slice_name for plan in list_pods(made)}
        homes = {(pod.plan.slice_name, pod.node.pool.name) for pod in pods if pod.node}
        if len(homes) > len({name for name, _ in homes}):
            return  # a slice runs on two pools: its owner is told, and nothing is taken away
        ours = [each for each in pools if (owner := read_owner(each)) and owner.slot is not None]
        if len(pools) > len(slices) and ours:
            self.report(
                "every pool ends", f"{made.kind} {made.name} has {len(slices)} slices and {len(pools)} pools"
            )

    def _judge_served(self, cluster: SimCluster, made: Workload) -> None:
        waits = [
            pod for pod in cluster.list_pods_of(made) if pod.live and pod.node is None and pod.view.unschedulable
        ]
        if not waits:
            return
        told = {message for pod in waits for _, message in cluster.events.get(pod.view.uid, {})}
        told |= {message for _, message in cluster.events.get(made.uid, {})}
        if not told:
            self.report("every demand answered", f"silence for {made.kind} {made.name}")

    # --- what several of them ask -----------------------------------------------------------------

    def _stops(self) -> bool:
        return self._world.scenario.mode == "report-only"

    def _check_stop(self, act: str, pool: Pool, *, creates: bool) -> None:
        mode = self._world.scenario.mode
        truth, run = self._world.clusters[pool.cluster], self._get_run()
        stops = truth.stop_mode == "report-only" or (creates and truth.stop_mode == "no-create")
        stops = stops and run.find_call_began() - truth.stopped_at > STOP_SECONDS
        if stops or mode == "report-only" or (creates and mode == "no-create"):
            self.report("stop", f"{act} of {pool.name} although a label forbids it")

    def _find_workload(self, pool: Pool) -> Workload | None:
        owner = read_owner(pool)
        if owner is None:
            return None
        made = self._world.clusters[pool.cluster].workloads.get((owner.kind, owner.name))
        return made if made is not None and owner.uid in ("", made.uid) else None

    def _list_users(self, pool: Pool) -> list[SimPod]:
        return self._world.clusters[pool.cluster].list_users(pool)

    def _get_run(self) -> Invocation:
        run = self._world.time.get_owner()
        return run if isinstance(run, Invocation) else Invocation("nothing", 0, self._world.time.now)
