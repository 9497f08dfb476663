"""Scenes of the screens: what a deployment has, by a name that is in brackets in their titles.

The log records of a scene are in a file of its name.
"""

import dataclasses
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import structs

from cli.access.connections import Deployment
from cli.access.deployment import DEAD_LETTERS, PUSHED
from cli.access.log_search import open_logs
from shared.edges.connection import Connection
from shared.edges.kubernetes import KubernetesApi
from shared.model import labels
from shared.model.errors import Denied
from shared.model.pools import Operation, PoolStatus
from shared.model.times import format_time
from shared.model.workloads import Disk
from tests.builders import CLUSTER, NOW, a_go_pool, a_jobset, a_pod, a_template
from tests.cli.cli_world import NOBODY, NOWHERE, WorldApi, a_deployment
from tests.contract.stand_ins import ask, serve_google
from tests.engine.world import World

RECORDS = Path(__file__).parent / "records"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/tpu-provisioner/leases/tpu-provisioner-exporter"
WHOLE = (*PUSHED, DEAD_LETTERS)


class Stage:
    """A world, and what its deployment has beside it."""

    def __init__(self) -> None:
        self.world = World(slices=2)
        self.own: dict[str, Any] = {}
        """The settings of the command line."""
        self.objects: dict[str, Any] = {}
        """Kubernetes objects by their paths."""
        self.absent: tuple[str, ...] = ()
        """Kinds that are not installed."""
        self.api: KubernetesApi | None = None
        self.subscriptions: tuple[str, ...] = ()
        self.dead_letters = 0

    def deploy(self, *subscriptions: str, renewed: float = NOW, holder: str = "exporter-a") -> None:
        """Give the deployment a name, subscriptions, and an exporter that has renewed its Lease."""
        self.own = {"project": "p", "name": "x", "lease_name": "tpu-provisioner-exporter"}
        self.subscriptions = subscriptions
        self.objects[LEASE] = {"spec": {"holderIdentity": holder, "renewTime": format_time(renewed)}}

    @contextmanager
    def open(self, scene: str, folder: Path) -> Iterator[Deployment]:
        """Yield the deployment; its logs and subscriptions are served as Google does."""
        records = RECORDS / f"{scene}.log"
        if not (records.is_file() or self.subscriptions):
            yield self._connect(a_deployment(self.world, **self.own))
            return
        if records.is_file():
            shutil.copy(records, folder)
        with serve_google(pubsub=True, logs=folder, project="p") as ports:
            for part in self.subscriptions:
                topic = f"projects/p/topics/{part}"
                ask("PUT", f"{ports['rest']}/v1/{topic}", {})
                ask("PUT", f"{ports['rest']}/v1/projects/p/subscriptions/x-{part}", {"topic": topic})
            if self.dead_letters:
                messages = {"messages": [{"data": "eA=="}] * self.dead_letters}
                ask("POST", f"{ports['rest']}/v1/projects/p/topics/{DEAD_LETTERS}:publish", messages)
            deployment = a_deployment(self.world, pubsub=ports["rest"], **self.own)
            yield self._connect(
                dataclasses.replace(deployment, open_logs=partial(open_logs, ports["rest"], NOBODY))
            )

    def _connect(self, deployment: Deployment) -> Deployment:
        api = WorldApi(self.world, self.objects, self.absent)
        return dataclasses.replace(deployment, apis={CLUSTER: self.api or api})


def neglect(stage: Stage) -> None:
    """Nobody has looked after it for long."""
    stage.deploy(*PUSHED[:-1], renewed=NOW - 300)
    del stage.world.cluster.labels["tpu-provisioner"]


def trouble(stage: Stage) -> None:
    """All of it is there, and some of it does not work."""
    stage.world = World(limit_chips=64, limit_chips_per_namespace=16)
    stage.deploy(*PUSHED[:-1], DEAD_LETTERS, holder="")
    stage.absent, stage.dead_letters = ("JobSet", "RayCluster"), 2
    stage.world.cluster.labels["tpu-provisioner"] = {labels.MODE: "off"}


def lock_out(stage: Stage) -> None:
    """GKE refuses, and Kubernetes does not answer."""
    stage.world.fail("list pools", Denied("container.clusters.get is missing"))
    stage.api = KubernetesApi(Connection(url=NOWHERE))


def limit(stage: Stage) -> None:
    """One of two slices is more than the limit allows."""
    stage.world = World(slices=2, limit_chips=24)
    stage.world.wait(0, 1)
    stage.world.provision()


STAGES: dict[str, Callable[[Stage], None]] = {
    "nothing is missing": lambda stage: stage.deploy(*WHOLE),
    "neglected": neglect,
    "in trouble": trouble,
    "no access": lock_out,
    "a limit": limit,
}


def opt_out(world: World) -> None:
    """The namespace of the JobSet wants no pools."""
    world.cluster.labels["team-a"] = {labels.DISABLE_AUTOPROVISIONING: "true"}


def bind_disk(world: World) -> None:
    """The disk of every claim is in one zone."""
    vars(world.cluster)["find_disk"] = lambda *_claim: Disk(claim="data", zones=("us-east5-a",))


def refuse_disks(world: World) -> None:
    """Nobody may read a claim."""

    def refuse(*_claim: str) -> None:
        raise Denied("persistentvolumeclaims is forbidden")

    vars(world.cluster)["find_disk"] = refuse


def add_pod(world: World, **fields: Any) -> None:
    """A JobSet with one pod of a certain kind waits."""
    pod = a_pod(created_at=NOW - 120, **fields)
    world.cluster.pods[pod.name] = pod
    world.set_jobset(replicas=1, template=pod.template)


def fail(world: World, name: str, error: str) -> None:
    """GKE says that a pool failed."""
    world.gke.pools[name] = structs.replace(world.gke.pools[name], status=PoolStatus.ERROR, error=error)


def serve_half(world: World) -> None:
    """One slice served, the second one waiting for its pool, which failed 50 s ago."""
    world.wait(0, 1)
    world.provisioner.work()
    first, second = world.gke.pools
    world.run(0, first)
    fail(world, second, "[GCE_STOCKOUT]")
    world.clock.pause(50)


def fail_twice(world: World) -> None:
    """The second slice's pool failed, and another attempt 15 minutes before."""
    serve_half(world)
    earlier = f"{list(world.gke.pools)[1][:-1]}1"
    world.gke.operations.append(
        Operation(
            pool=earlier, creates=True, ended=True, error="quota exceeded", began_at=NOW - 900, ended_at=NOW - 890
        )
    )


def lack_nodes(world: World) -> None:
    """A pool lacks its nodes for long, in GKE's words."""
    world.wait(0)
    world.provision()
    (name,) = world.gke.pools
    fail(world, name, "ZONE_RESOURCE_POOL_EXHAUSTED: The zone has no capacity.")


def scale_down(world: World) -> None:
    """One of two slices that run is not wanted any more."""
    world.run_all(slices=2)
    for host in range(4):
        del world.cluster.pods[f"train-1-{host}"]
    world.set_jobset(replicas=1)


def finish(world: World) -> None:
    """The workload of a pool is over."""
    world.run_all()
    world.finish(replicas=1)


def hold(world: World) -> None:
    """The workload of a pool is over, and a pod of another one runs on its nodes."""
    world.run_all()
    node = next(pod.node_name for pod in world.cluster.pods.values())
    world.finish(replicas=1)
    world.cluster.pods["other"] = a_pod(jobset="other", name="other", uid="other", node_name=node)


def stop(world: World) -> None:
    """A slice waits while the emergency stop is on."""
    world.wait(0)
    world.cluster.labels["tpu-provisioner"] = {labels.MODE: "no-create"}


def keep_go_pool(world: World) -> None:
    """The Go program has left a pool."""
    world.gke.pools["train-12345"] = a_go_pool()


def suspend(world: World) -> None:
    """The JobSet is suspended."""
    world.set_jobset(replicas=2, suspended=True)


def leave(world: World) -> None:
    """The JobSet is gone; GKE and an Event know of its pool."""
    world.wait(0)
    world.provisioner.work()
    (name,) = world.gke.pools
    world.cluster.pods.clear()
    world.cluster.workloads.clear()
    world.gke.pools.clear()
    world.gke.operations.append(Operation(pool=name, creates=False, ended=True, began_at=NOW - 50, ended_at=NOW))


def refuse_part(world: World) -> None:
    """One part of the JobSet waits, and another one can never be served."""
    good, other = a_jobset(replicas=1), a_jobset(job="odd", replicas=1, template=a_template(topology="9x9"))
    world.set_jobset(groups=(*good.groups, *other.groups))
    world.wait(0)


def forbid(world: World) -> None:
    """Nobody may read the three JobSets that wait."""
    for jobset in ("train", "other", "third"):
        world.set_jobset(name=jobset)
        world.wait(0, jobset=jobset)
    world.fail("get JobSet *", Denied("jobsets is forbidden"))


WORLDS: dict[str, Callable[[World], None]] = {
    "no rights": forbid,
    "cluster": lambda _world: None,
    "opted out": opt_out,
    "disk": bind_disk,
    "no disks": refuse_disks,
    "half served": serve_half,
    "failed twice": fail_twice,
    "no nodes": lack_nodes,
    "scaled down": scale_down,
    "over": finish,
    "held": hold,
    "pod opts out": lambda world: add_pod(world, pod_labels={labels.DISABLE_AUTOPROVISIONING: "true"}),
    "pod names its pool": lambda world: add_pod(world, template=a_template(selectors={labels.NODE_POOL: "mine"})),
    "9x9": lambda world: add_pod(world, shape={"topology": "9x9"}),
    "half refused": refuse_part,
    "waits": lambda world: world.wait(0, 1),
    "stopped": stop,
    "go pool": keep_go_pool,
    "suspended": suspend,
    "gone": leave,
}


@contextmanager
def stage(scene: str, folder: Path) -> Iterator[Deployment]:
    """Yield the deployment of a scene."""
    stage = Stage()
    if scene in WORLDS:
        WORLDS[scene](stage.world)
    elif scene in STAGES:
        STAGES[scene](stage)
    else:
        assert (RECORDS / f"{scene}.log").is_file(), f"no scene {scene}"
    with stage.open(scene, folder) as deployment:
        yield deployment
