"""Judges each act of the product by the truth, and not by what the product was shown."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from shared.engine.look import LIST_SECONDS
from shared.engine.outside import Role
from shared.model.pools import PoolStatus
from shared.model.workloads import CheckState
from tests.simulation.sim_cluster import SimCluster, SimPod
from tests.simulation.sim_faults import PoolRead
from tests.simulation.sim_kueue import Entry
from tests.simulation.sim_pool_bodies import LIVE, Pool
from tests.simulation.sim_scenarios import GRACE_SECONDS, START, Violation
from tests.simulation.sim_workloads import Workload

if TYPE_CHECKING:
    from tests.simulation.sim_world import World

LOOK_SECONDS = 11.0
"""The oldest look on which an act may rest, when its call begins. What changes after it is only
counted, because nothing can recall a request that is on its way."""
STOP_SECONDS = CHANGED_SECONDS = LOOK_SECONDS + 2
"""A create may rest on a list of pools, and on labels of namespaces, that are 2 s older."""
REQUEST_SECONDS = 55.0  # so long a tick may take
TWO_SECONDS = 20.0
"""GKE names no cause, and the product has no reason for another try, so soon after a create."""
HOUR_SECONDS, SPARE_CREATES = 3600.0, 3
"""A slot gets so many creates in an hour beside one for each of its ways."""


class Judge:
    """Collects the violations of one story."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.violations: list[Violation] = []
        self.acts = 0
        self.figures: Counter[str] = Counter()
        self._created: dict[tuple[str, ...], list[float]] = {}
        """When pools of a slot were created."""
        self._rounds: dict[tuple[str, ...], int] = {}
        """How many lists of a slot ended since a pool of it had a node, or its owner changed."""
        self._last: dict[tuple[str, ...], Pool] = {}
        """The last pool of each slot."""
        self._doubtful: dict[str, list[float]] = {}
        """When pools of a cluster were deleted without a word of their owner."""

    def report(self, invariant: str, text: str) -> None:
        violation = Violation(invariant, text, self._now - START)
        self._world.tell(f"VIOLATION {violation}")
        self.violations.append(violation)

    @property
    def _now(self) -> float:
        return self._world.time.now

    @property
    def _sent(self) -> float:
        """When the call was made that is judged."""
        return self._world.time.get_call_began()

    def _home(self, pool: Pool) -> SimCluster:
        return self._world.clusters[pool.cluster]

    # --- what adds --------------------------------------------------------------------------------

    def see_create(self, pool: Pool) -> None:
        """Judge a create that GKE accepts now."""
        self.figures["creates"] += 1
        self.acts += 1
        self._check_stop("create", pool, adds=True)
        if pool.owner is None:
            self.report("foreign pools", f"{pool.name} is created without labels of ours")
            return
        self._judge_pace(pool)
        self._judge_limit(pool, pool.size)
        made = self._home(pool).find_owner(pool)
        if made is not None:
            self._judge_count(pool, made)

    def _judge_count(self, pool: Pool, made: Workload) -> None:
        """Report a create for a slice that has a pool which serves it, or which comes.

        A pinned pool serves its own slice only. One that only others use may be left out of the
        count. What came or became whole after this request was sent could not be known. What a
        list lacks for longer than lists of GKE lag is gone.
        """
        sent = self._sent
        fitting = [each for each in self._world.gke.list_fitting(pool.cluster, made) if each.pin == pool.pin]
        serving = [each for each in fitting if self._may_serve(each)]
        since = sent - (LOOK_SECONDS if self._is_several(Role.PROVISION) else 3)
        shown = self._world.run.pool_reads.get((pool.cluster, ""))
        if shown and shown.answered_at - shown.shows > LIST_SECONDS:
            since = min(since, shown.shows)
        listed = [
            each for each in serving if max(each.made_at, each.relabelled_at, each.healthy_since or 0.0) <= since
        ]
        if made.elastic and sum(each.size for each in listed) < made.count_nodes():
            return  # what the zones of its pools do not have comes in another one
        strangers = any(self._is_taken(each, made) or each.left_at > since for each in listed)
        most = 1 if pool.pin else made.count_pools()
        changed = sent - made.changed_at < CHANGED_SECONDS
        if pool.fits(made) and len(listed) - strangers >= most and not changed:
            beside = ", ".join(sorted({str(each.status) for each in listed}))
            text = f"{pool.name} beside {len(listed)} that are {beside} for {most} slices"
            self.report("no pool too many", f"{text} of {made.kind} {made.name}")
        elif len(serving) - strangers >= most:
            self.figures["creates on their way"] += 1

    def _may_serve(self, pool: Pool) -> bool:
        """Return whether a pool serves a slice, or comes without a word of trouble."""
        now = self._now
        if pool.status == PoolStatus.PROVISIONING:
            return now - pool.made_at < 3600
        if pool.status not in LIVE or now - pool.refused_at < HOUR_SECONDS:
            return False
        if pool.healthy_since is None and pool.autoscaled:
            return pool.status == PoolStatus.RUNNING and now - pool.made_at < 110
        return pool.healthy_since is not None and now - pool.healthy_since < 900

    def _is_taken(self, pool: Pool, made: Workload) -> bool:
        users = self._home(pool).list_users(pool)
        return bool(users) and all(pod.workload is not made for pod in users)

    def _judge_pace(self, pool: Pool) -> None:
        """Report more creates of a slot in an hour than its ways and some more.

        A person who takes labels or pools away takes the record with them.
        """
        times = [at for at in self._created.get(pool.place, ()) if self._now - at < HOUR_SECONDS]
        self._created[pool.place] = [*times, self._now]
        touched = self._has_done("relabel", "remove-pool", name=pool.owner.name if pool.owner else "")
        self._judge_pause(pool, touched=touched)
        # One that GKE does long after the caller has given up was counted as lost.
        most = max(self._world.scenario.candidates, 1) + SPARE_CREATES + self._may_fail("late")
        if len(times) >= most and not touched and not self._is_several(Role.PROVISION):
            self.report("creates per hour", f"{pool.name} is create {len(times) + 1} of its slot in an hour")

    def _judge_pause(self, pool: Pool, *, touched: bool) -> None:
        """Report a list that begins again before the pause after its end is over.

        It counts from the record of the last creation, which is older than the pool.
        """
        key, made = pool.place, self._home(pool).find_owner(pool)
        before = self._last.get(key)
        twice = before is not None and (pool.precedes(before) or pool.name == before.name)
        if twice and self._may_fail("late"):
            return  # GKE does it long after the caller has given up
        self._last[key] = pool
        # The lists of two settings end after other numbers of tries.
        lists = any(each.settings for each in self._world.scenario.rollouts if each.role == "provision")
        if before is None or made is None or touched or lists or self._may_fail("vanish", "stale", "crash"):
            return
        if self._world.gke.is_there(before) and self._now - before.made_at < TWO_SECONDS:
            text = f"{pool.name} is created less than {TWO_SECONDS:.0f} s after {before.name}"
            self.report("one pool per slot", text)
            return
        # What others had taken counted again for a while, or a Retry of Kueue gave all back.
        record_may_go = made.lent or self._has_new_quota(before, made)
        if record_may_go and not self._world.gke.is_there(before):
            self._rounds[key] = 0
            return
        old, new = before.owner, pool.owner
        changed = made.changed_at > before.made_at
        if before.made_nodes or changed:
            self._rounds[key] = 0
        if changed and before.status == PoolStatus.STOPPING:
            return  # what was suspended begins anew once its pools go
        if old is None or new is None or before.made_nodes or not old.created_at:
            return
        ended = old.candidate + 1 >= len(self._world.list_zones(made)) and new.candidate <= old.candidate
        rounds = old.round if self._loses_records(made) else self._rounds.get(key, 0)
        self._rounds[key] = self._rounds.get(key, 0) + ended
        passed, pause = self._sent - old.created_at, min(60 << min(rounds, 5), 1800)
        if ended and passed < pause - 5 and before.status != PoolStatus.RUNNING:
            self.report("pauses", f"{pool.name} follows {before.name} after {passed:.0f} s, and not {pause} s")

    def _has_new_quota(self, before: Pool, made: Workload) -> bool:
        """Return whether Kueue has reserved quota for a workload since a pool of it was created."""
        entry = self._world.clusters[before.cluster].kueue.entries.get(made.uid)
        return entry is not None and (entry.reserved_at or 0.0) > before.made_at

    def _loses_records(self, made: Workload) -> bool:
        """Return whether a record may go before its successor, so that a list begins anew.

        One that holds a reservation or room under a limit may, and one of a slice that ran for a
        while on a pool of somebody else.
        """
        scenario = self._world.scenario
        elsewhere = self._has_done("visitor", "static-pool", "go-pool", "finish-slice", name=made.name)
        return bool(elsewhere or scenario.limit_chips or "reservation" in scenario.tiers)

    def _judge_limit(self, pool: Pool, nodes: int) -> None:
        """Report that one instance passes a limit; what a second one passes is counted."""
        limit = self._world.scenario.limit_chips
        others = (each for each in self._world.gke.pools[pool.cluster].values() if each.owner and each is not pool)
        chips = sum(self._count_chips(each) for each in others) + nodes * pool.listed.units
        if not limit or chips <= limit:
            return
        if self._is_several(Role.PROVISION) or self._knows_not(pool):
            self.figures["limits passed by two instances"] += 1
        else:
            self.report("limits", f"with {pool.name} there are {chips} chips, above {limit}")

    def _knows_not(self, pool: Pool) -> bool:
        """Return whether other programs or old answers hid pools from the count."""
        now = self._now
        go = any(
            each.owner and each.owner.slot is None and now - each.made_at < CHANGED_SECONDS
            for each in self._world.gke.pools[pool.cluster].values()
        )
        return go or self._may_fail("stale", "late", "crash", "stall")

    def _count_chips(self, pool: Pool) -> int:
        """Return the chips for which a limit counts a pool: a failed one is none.

        GKE does not list how many machines a failed pool has, and mostly it has none.
        """
        nodes = len(self._home(pool).list_nodes(pool))
        if pool.status in (PoolStatus.ERROR, PoolStatus.RUNNING_WITH_ERROR):
            return 0
        gone = pool.status == PoolStatus.STOPPING or pool.off
        return (nodes if gone else max(pool.size, nodes)) * pool.listed.units

    # --- what changes or takes away ---------------------------------------------------------------

    def see_bound(self, pool: Pool, nodes: int, *, adds: bool) -> None:
        """Judge another maximum of an autoscaled pool."""
        self.see_change("raise" if adds else "lower", pool, adds=adds)
        made = self._home(pool).find_owner(pool)
        if adds:
            self._judge_limit(pool, nodes)
            wanted = max(made.count_nodes() if made else 0, 1)
            others = sum(pod.workload is not made for pod in self._home(pool).list_users(pool))
            sent = self._sent
            changed = made is not None and sent - made.changed_at < CHANGED_SECONDS
            if nodes > wanted + others and not changed:
                self.report("no pool too many", f"{pool.name} may have {nodes} nodes, and {wanted} are wanted")
            return
        home = self._home(pool)
        old = [each for each in home.list_nodes(pool) if each.created_at < self._sent - LOOK_SECONDS]
        if nodes < len(old) and (nodes or any(each.pods for each in old)):
            self.report("in use", f"{pool.name} is bounded to {nodes} nodes and has {len(old)}")
        look = self._sent - LOOK_SECONDS
        moments = [look, *(at for at, _ in pool.machines if at > look)]
        starting = min(*(pool.recall_machines(at).present for at in moments), pool.granted)
        if 0 < nodes < starting:
            self.report("in use", f"{pool.name} is bounded to {nodes} nodes and GKE makes {starting}")

    def see_change(self, act: str, pool: Pool, *, adds: bool) -> None:
        """Judge any change of a pool that exists: it is ours, and no label forbids it."""
        self.acts += 1
        self._check_stop(act, pool, adds=adds)
        if pool.owner is not None:
            return
        run = self._world.run
        reads = [run.pool_reads.get((pool.cluster, name)) for name in (pool.name, "")]
        last = next((each for each in reads if each is not None), PoolRead(run.began, run.began))
        if last.shows >= max(pool.made_at, pool.relabelled_at):
            self.report("foreign pools", f"{act} of {pool.name}, whose labels are not ours")
        elif self._sent - last.answered_at > LOOK_SECONDS:
            seconds = self._sent - last.answered_at
            self.report("foreign pools", f"{act} of {pool.name}, whose labels were read {seconds:.0f} s before")
        else:
            self.figures["changes after the look"] += 1

    def see_delete(self, pool: Pool) -> None:
        self.figures["deletes"] += 1
        self.see_change("delete", pool, adds=False)
        for pod in self._home(pool).list_holders(pool):
            self._judge_bound(pool, pod)
        if pool.owner is not None:
            self._judge_need(pool)
            self._judge_warmth(pool)
            self._count_doubtful(pool)

    def _judge_bound(self, pool: Pool, pod: SimPod) -> None:
        """Report the delete of a used pool, unless the pod hangs on a slice that lost a host."""
        now, made, run = self._now, pod.workload, self._world.run
        if pool.is_of(made) and pool.healthy_since is None and made.shape.hosts > 1:
            return
        names = (pool.name, pod.node.view.name if pod.node else "")
        look = max(run.looks.get((pool.cluster, name), run.began) for name in names)
        if pod.bound_at > look and self._sent - look <= LOOK_SECONDS:
            self.figures["pods bound after the look"] += 1
            return
        state = "ends" if pod.deleting_since is not None else "runs"
        when = f"bound after a look {now - look:.0f} s old" if pod.bound_at > look else "bound before the look"
        self.report("in use", f"delete of {pool.name} ({pool.status}) with {pod.view.name}, which {state}, {when}")

    def _judge_need(self, pool: Pool) -> None:
        """Report the delete of a pool without which its live workload has too few."""
        made, sent = self._home(pool).find_owner(pool), self._sent
        if made is None or not pool.fits(made):
            return
        others = [each for each in self._world.gke.list_fitting(pool.cluster, made) if each is not pool]
        if pool.healthy_since is None:
            self._judge_coming(pool, made, others)
        elif pool.healthy_since > sent - LOOK_SECONDS:
            self.figures["changes after the look"] += 1
        elif made.suspended and not made.terminal and made.deleting_since is None:
            self._judge_suspension(pool, made)
        elif not (made.over or sent - made.changed_at < LOOK_SECONDS or self._is_done_with(pool, made)):
            self._judge_whole(pool, made, others)

    def _judge_whole(self, pool: Pool, made: Workload, others: list[Pool]) -> None:
        """Report the delete of a whole pool, unless its pods have waited beside it for long."""
        home, left = self._home(pool), sum(each.healthy_since is not None for each in others)
        pods = home.list_pods_of(made)
        waits = any(pod.live and pod.node is None for pod in pods)
        needed = home.count_pools_needed(made, surges=waits or not pods)
        useless = waits and self._now - (pool.healthy_since or 0.0) >= 900
        if left < needed and not useless:
            text = f"{left} are left for {needed} slices of {made.kind} {made.name}"
            self.report("needed pools", f"delete of {pool.name} ({pool.status}), whole; {text}")

    def _is_done_with(self, pool: Pool, made: Workload) -> bool:
        """Return whether a pool is the own one of a slice that has ended or runs elsewhere."""
        plans, pods = made.list_wanted(), self._home(pool).list_pods_of(made)
        wanted = {plan.slice_name for plan in plans}
        nodes = [pod.node for pod in pods if pod.plan.pool_key == pool.pin]
        elsewhere = bool(nodes) and all(node is not None and node.pool is not pool for node in nodes)
        if pool.pin and (elsewhere or pool.pin not in {plan.pool_key for plan in plans}):
            return True
        return any(
            pod.plan.pool_key and pod.node and pod.node.pool is pool and pod.plan.slice_name not in wanted
            for pod in pods
        )

    def _judge_coming(self, pool: Pool, made: Workload, others: list[Pool]) -> None:
        """Report the delete of a new pool whose nodes come, and for which pods wait."""
        home, since = self._home(pool), self._sent - LOOK_SECONDS
        pods = [pod for pod in home.waiting.values() if pod.workload is made and pod.live]
        waits = any(pod.made_at < since for pod in pods)
        few = sum(map(self._may_serve, others)) < home.count_pools_needed(made, surges=True)
        young = pool.status == PoolStatus.RUNNING and pool.autoscaled and self._may_serve(pool)
        late = any(pool.precedes(each) for each in others)
        quiet = self._sent - made.changed_at > CHANGED_SECONDS and not made.over
        if waits and few and young and quiet and not (late or self._is_done_with(pool, made)):
            self.report("needed pools", f"delete of {pool.name}, whose nodes come and for which pods wait")

    def _judge_suspension(self, pool: Pool, made: Workload) -> None:
        """Report the delete of a whole pool whose workload may resume within the grace."""
        if made.queued:
            return
        waited = self._now - made.suspended_at
        says = made.suspended_since is not None and not self._world.scenario.skew_seconds
        slices = made.elastic or made.count_slices() >= len(self._world.gke.list_owned(pool.cluster, made))
        if says and slices and waited < GRACE_SECONDS - 2:
            text = f"delete of {pool.name}, whose {made.kind} is suspended for {waited:.0f} s"
            self.report("needed pools", text)

    def _judge_warmth(self, pool: Pool) -> None:
        """Report the delete of a whole pool that may stay idle before its time is over."""
        owner, made, whole_since = pool.owner, self._home(pool).find_owner(pool), pool.healthy_since
        if owner is None or not owner.warm_seconds or pool.status != PoolStatus.RUNNING or made is None:
            return
        # Machines may have come since the call was sent.
        if not made.terminal or whole_since is None or self._sent - whole_since < LOOK_SECONDS:
            return
        idle = self._now - max(pool.left_at, whole_since)
        least = min(owner.warm_seconds, self._world.scenario.idle_seconds) // 2 - 1
        if idle < least and not self._is_use_unseen(pool):
            self.report("idle time", f"delete of {pool.name}, idle for {idle:.0f} s")

    def _is_use_unseen(self, pool: Pool) -> bool:
        """Return whether no tick ended during the last use of an idle pool: then its mark stays."""
        nodes, ticks = self._home(pool).list_nodes(pool), self._world.ticks.get(pool.cluster, ())
        marked = any((node.view.idle_since or pool.bound_at) < pool.bound_at for node in nodes)
        return marked and not any(pool.bound_at < tick < pool.left_at - REQUEST_SECONDS for tick in ticks)

    def _count_doubtful(self, pool: Pool) -> None:
        """See that the cap holds for deletes that no word of the owner asks for."""
        made, now, cap = self._home(pool).find_owner(pool), self._now, self._world.scenario.cap
        if made is not None and (made.terminal or made.suspended or made.deleting_since is not None):
            return
        if made is None and self._was_over(pool):
            return
        times = [at for at in self._doubtful.get(pool.cluster, ()) if now - at < 55]
        self._doubtful[pool.cluster] = [*times, now]
        late = self._may_fail("stall", "late", "crash", "lost-reply")
        if len(times) >= cap and not late and not self._is_several(Role.COLLECT):
            text = f"{len(times) + 1} pools in a minute without a word of their owners: {pool.name}"
            self.report("deletions per minute", text)

    def _was_over(self, pool: Pool) -> bool:
        """Return whether the owner of a pool said that it is over, and then went."""
        gone = self._home(pool).gone_at.get(pool.owner.uid if pool.owner else "", 0.0)
        return gone > self._sent - LOOK_SECONDS

    # --- Kueue ------------------------------------------------------------------------------------

    def see_check(self, cluster: SimCluster, entry: Entry, state: CheckState) -> None:
        """Judge what Kueue's check says: Ready only when all pools run."""
        if state.state == "Rejected":
            self.report("all or nothing", f"{entry.made.name} can be served, and is rejected: {state.message}")
        if state.state != "Ready":
            return
        made, sent = entry.made, self._sent
        pools = self._world.gke.list_fitting(cluster.name, made)
        whole = sum(each.healthy_since is not None for each in pools)
        lost = self._has_done("preempt", "remove-pool", "relabel", "degrade", name=made.name)
        needed = made.count_pools()
        if whole < needed and not lost and sent - made.changed_at > LOOK_SECONDS:
            self.report("all or nothing", f"{made.name} is Ready with {whole} of {needed} pools")

    # --- what several of them ask -----------------------------------------------------------------

    def see_dead_letter(self, text: str) -> None:
        """Judge a message that was refused too often: only where something failed for long."""
        lasts = "has ended" in text or self._world.scenario.operation_slots
        if not lasts and not self._may_fail("outage", "no-right"):
            self.report("no message lost", f"it was refused too often: {text}")

    def _may_fail(self, *kinds: str) -> bool:
        return any(each.kind in kinds and each.at <= self._now - START for each in self._world.scenario.faults)

    def _has_done(self, *verbs: str, name: str) -> bool:
        """Return whether a person has done one of some acts to a workload by now."""
        acts = (act for act in self._world.scenario.acts if act.verb in verbs and act.name == name)
        return any(act.at <= self._now - START for act in acts)

    def _is_several(self, role: Role) -> bool:
        return self._world.functions.several_until[role] > self._now

    def _check_stop(self, act: str, pool: Pool, *, adds: bool) -> None:
        truth, forbids = self._home(pool), {"report-only", "no-create"} if adds else {"report-only"}
        stops = truth.stop_mode in forbids and self._sent - truth.stopped_at > STOP_SECONDS
        if stops or self._world.scenario.mode in forbids:
            self.report("stop", f"{act} of {pool.name} although a label forbids it")
