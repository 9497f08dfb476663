"""What people and controllers do in a scenario: each verb of an act is a method."""

from dataclasses import dataclass, replace
from functools import partial

from shared.engine.outside import Role
from shared.model import labels
from shared.model.messages import Message
from shared.model.pools import NodePool, PoolStatus
from shared.model.workloads import Taint
from tests.builders import a_go_pool, a_push
from tests.simulation.sim_cluster import SimCluster
from tests.simulation.sim_pool_bodies import Pool
from tests.simulation.sim_pools import EXHAUSTED
from tests.simulation.sim_scenarios import CLUSTERS, ZONE, Act
from tests.simulation.sim_workloads import OTHER, SHAPES, Shape, Workload
from tests.simulation.sim_world import Sent, World


def apply_act(world: World, act: Act) -> None:
    """Do an act now; one that makes no sense now is left out."""
    if act.cluster >= len(world.cluster_names):
        return
    cluster, verb = world.clusters[CLUSTERS[act.cluster]], act.verb.replace("-", "_")
    world.tell(f"ACT {act}")
    if hasattr(OnCluster, verb):
        getattr(OnCluster(world, cluster, act), verb)()
        return
    made = cluster.find_workload(act.name)
    if made is not None and made.deleting_since is None:
        getattr(OnWorkload(world, cluster, act, made), verb)()


@dataclass(frozen=True)
class OnCluster:
    """An act in a cluster."""

    world: World
    cluster: SimCluster
    act: Act

    def create(self) -> None:
        """Let a workload exist, unless another one has the name."""
        act, world, now, queued = self.act, self.world, self.world.time.now, self.act.verb == "queue"
        if self.cluster.find_workload(act.name) is not None:
            return
        shape, _, tier = act.shape.partition("+")
        made = Workload(
            act.kind,
            act.name,
            world.make_uid("uid"),
            SHAPES[shape],
            act.count,
            act.flag,
            spot=bool(tier),
            tolerates=tier != "spot-intolerant",
            suspended=queued,
            suspended_at=now,
            queued=queued,
            check_seconds=world.scenario.check_seconds,
            made_at=now + world.scenario.skew_seconds,
            changed_at=now,
        )
        self.cluster.add_workload(made)
        if queued:
            self.cluster.kueue.see(made)

    queue = create  # as suspended, in Kueue's queue

    def bystander(self) -> None:
        self.add_pool(f"team-pool-{self.act.name}", {"team": "a"}, SHAPES["one"], failed=self.act.flag)

    def add_pool(self, name: str, marks: dict[str, str], shape: Shape, *, failed: bool = False) -> None:
        """Let there be a pool that our functions did not make; that of a team keeps others off."""
        listed = NodePool(
            name=name,
            status=PoolStatus.ERROR if failed else PoolStatus.RUNNING,
            labels=marks,
            taints=(Taint("team", marks["team"], "NoSchedule"),) if "team" in marks else (),
            machine_type=shape.machine_type,
            accelerator=shape.accelerator if shape.gpu else "",
            gpus_per_node=shape.units if shape.gpu else 0,
            topology=shape.topology if shape.hosts > 1 else "",
            maximum=shape.hosts,
            zones=(ZONE,),
        )
        pool = Pool(self.cluster.name, listed, self.world.time.now, size=shape.hosts, begins=shape.hosts)
        pool.granted = 0 if failed else pool.size
        self.world.gke.add(pool)
        if not failed:
            self.world.gke.fill(pool)

    def exporter_down(self) -> None:
        exporter = self.world.exporters[self.cluster.name]
        exporter.stop()
        self.world.time.after(float(self.act.count), exporter.start)

    def stop(self) -> None:
        """Set the emergency stop, and take it back after a while."""
        cluster = self.cluster
        cluster.stop_mode = "report-only" if self.act.flag else "no-create"
        cluster.stopped_at = self.world.time.now
        self.world.time.after(float(self.act.count), partial(setattr, cluster, "stop_mode", ""))

    def replay(self) -> None:
        self.world.replay()

    def rubbish(self) -> None:
        """Let a stranger publish what is no event, or one of a cluster that is not served."""
        source = "//container.googleapis.com/projects/p/locations/l/clusters/other" if self.act.flag else "?"
        marks = {"ce-specversion": "1.0", "ce-type": "tpuprovisioner.demand.v1", "ce-source": source}
        event = b'{"version":1,"kind":"Pod","namespace":"default","name":"x","uid":"u"}'
        body = a_push(Message(event if self.act.flag else b"rubbish", marks))
        self.world.send(self.cluster.name, Sent(Role.PROVISION, body, "rubbish"))


@dataclass(frozen=True)
class OnWorkload(OnCluster):
    """An act on a workload that lives; what its kind cannot do is left out."""

    made: Workload

    def again(self, **changes: object) -> OnCluster:
        shape = f"{self.made.shape.name}+spot" if self.made.spot else self.made.shape.name
        like = Act(0.0, "create", self.act.cluster, self.made.name, self.made.kind, shape)
        return OnCluster(self.world, self.cluster, replace(like, **changes))  # type: ignore[arg-type]

    def delete(self) -> None:
        """Delete it; with the flag in the foreground: the object stays until its pods are gone."""
        cluster, made, world = self.cluster, self.made, self.world
        made.changed_at = world.time.now
        if made.kind != "Pod" and not self.act.flag:
            cluster.remove_workload(made)
            return
        made.deleting_since = world.time.now
        if made.kind != "Pod":
            cluster.note_workload(made)
            world.time.after(float(self.act.count or 30), partial(cluster.remove_workload, made))
            return
        made.touch()
        for pod in cluster.list_pods_of(made):
            cluster.end_pod(pod, world.draw_termination())
        if not cluster.list_pods_of(made):
            cluster.remove_workload(made)

    def recreate(self) -> None:
        """Delete it, and create one of its name, with the flag of another shape."""
        made = self.made
        if made.kind == "Pod":
            return
        self.cluster.remove_workload(made)
        other = {"shape": OTHER[made.shape.name]} if self.act.flag else {}
        again = self.again(count=made.replicas, flag=made.pinned, **other)
        self.world.time.after(float(self.act.count), again.create)

    def visitor(self) -> None:
        """Let a pod that asks the same come by itself; it may run on any pool that fits it."""
        if self.made.shape.hosts == 1:
            self.again(kind="Pod", name=f"visitor-{self.made.name}", count=1).create()

    def suspend(self) -> None:
        """Suspend it; with the flag its controller never says since when."""
        made = self.made
        if made.can("suspend") and not (made.suspended or made.terminal or made.queued):
            self.cluster.suspend(made, says=not self.act.flag)

    def resume(self) -> None:
        if self.made.suspended and not self.made.queued:
            self.cluster.resume(self.made)

    def scale(self) -> None:
        made, count = self.made, self.act.count
        if made.can("scale") and made.replicas != count and (made.kind != "StatefulSet" or made.elastic):
            self.cluster.edit(made, replicas=count)

    def respec(self) -> None:
        if self.made.can("scale"):
            self.cluster.edit(self.made, shape=SHAPES[OTHER[self.made.shape.name]])

    def restart(self) -> None:
        """Let all of its pods be made anew; with the flag the old ones end soon."""
        if self.made.can("restart") and not self.made.over:
            self.made.restarts += 1
            self.cluster.note_workload(self.made)
            for pod in self.cluster.list_pods_of(self.made) if self.act.flag else ():
                self.cluster.end_pod(pod, self.world.rng.random() * 20)

    def complete(self) -> None:
        """Let it succeed, or with the flag fail."""
        made, fails = self.made, self.act.flag
        if not made.can("complete") or made.terminal:
            return
        made.terminal = (
            "Failed" if fails else {"JobSet": "Completed", "Job": "Complete"}.get(made.kind, "Succeeded")
        )
        made.changed_at = self.world.time.now
        made.terminal_since = made.changed_at + self.world.scenario.skew_seconds
        for pod in self.cluster.list_pods_of(made):
            if fails and made.kind != "Pod":
                self.cluster.end_pod(pod, self.world.draw_termination())
            else:
                self.cluster.finish_pod(pod, "Failed" if fails else "Succeeded")
        self.cluster.note_workload(made)

    def finish_slice(self) -> None:
        """Let the Job of one slice end while its JobSet lives."""
        made = self.made
        left = [index for index in range(made.replicas) if index not in made.finished]
        if len(left) < 2 or made.over:
            return
        index = left[self.act.count % len(left)]
        made.finished, made.changed_at = made.finished | {index}, self.world.time.now
        for pod in self.cluster.list_pods_of(made):
            if pod.plan.slice_name == f"{made.name}-w-{index}":
                self.cluster.finish_pod(pod, "Succeeded")
        self.cluster.note_workload(made)

    def evict(self) -> None:
        pods = [pod for pod in self.cluster.list_pods_of(self.made) if pod.live]
        if pods:
            self.cluster.end_pod(pods[self.act.count % len(pods)], self.world.rng.random() * 30)

    def evict_queued(self) -> None:
        """Let Kueue take its quota away."""
        self.cluster.kueue.evict(self.made)

    # --- its pools --------------------------------------------------------------------------------

    def _list_pools(self) -> list[Pool]:
        """Return its pools, and those of a workload before it of its name."""
        pools = self.world.gke.pools[self.cluster.name].values()
        name = self.made.kind, self.made.name
        return [each for each in pools if each.owner and (each.owner.kind, each.owner.name) == name]

    def _list_running(self) -> list[Pool]:
        return [each for each in self._list_pools() if each.status == PoolStatus.RUNNING]

    def preempt(self) -> None:
        """Take machines of the first pool away; GKE makes them anew unless the flag is set."""
        gke, time, lasts = self.world.gke, self.world.time, self.act.flag
        for pool in self._list_running()[:1]:
            names = [node.name for node in self.cluster.list_nodes(pool)]
            for name in names if self.act.count > 1 else names[:1]:
                gke.lose_node(pool, name)
            error = EXHAUSTED.format(zone=pool.zone) if lasts else ""
            again = not (lasts or pool.autoscaled)
            coming = pool.size - pool.granted if again else 0
            pool.note_machines(time.now, made=pool.granted, coming=coming, error=error, stays=not pool.autoscaled)
            pool.asked = min(pool.asked, pool.granted)
            if again:
                time.after(60 + self.world.rng.random() * 200, partial(gke.repair, pool))

    def degrade(self) -> None:
        """Let GKE report errors of a pool whose nodes all work."""
        status = PoolStatus.ERROR if self.act.flag else PoolStatus.RUNNING_WITH_ERROR
        for pool in [each for each in self._list_running() if each.healthy_since is not None][:1]:
            self.world.gke.set_status(pool, status, "an instance group reports errors")

    def remove_pool(self) -> None:
        for pool in self._list_pools()[:1]:
            if pool.status not in (PoolStatus.STOPPING, PoolStatus.PROVISIONING):
                self.world.gke.stop(pool)
                pool.relabelled_at = self.world.time.now

    def relabel(self) -> None:
        """Let a person take a label of ours away."""
        for pool in self._list_pools()[:1]:
            key = labels.MANAGER if self.act.flag else labels.CREATED_AT
            kept = {name: value for name, value in pool.listed.labels.items() if name != key}
            self.world.gke.relabel(pool, kept)

    def go_pool(self) -> None:
        """Let there be a pool of the Go provisioner, maybe a failed one. It made TPU pools."""
        made, name = self.made, f"tpu-provisioner-{self.made.name}"
        if not (made.shape.gpu or made.pinned or name in self.world.gke.pools[self.cluster.name]):
            self.add_pool(name, a_go_pool(jobset=made.name).labels, made.shape, failed=self.act.flag)

    def static_pool(self) -> None:
        self.add_pool(f"static-{self.made.name}-{self.act.at:.0f}", {"made-by": "operator"}, self.made.shape)
