"""Scenes of the screens: what a deployment has, by a name that is in brackets in their titles."""

from collections.abc import Callable
from typing import Any

from msgspec import structs

from shared.model import labels
from shared.model.errors import Denied
from shared.model.pools import Operation, PoolStatus
from shared.model.workloads import Disk
from tests.builders import NOW, a_go_pool, a_pod, a_template
from tests.engine.world import World


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


SCENES: dict[str, Callable[[World], None]] = {
    "cluster": lambda _world: None,
    "opted out": opt_out,
    "disk": bind_disk,
    "no disks": refuse_disks,
    "half served": serve_half,
    "failed twice": fail_twice,
    "no nodes": lack_nodes,
    "scaled down": scale_down,
    "over": finish,
    "pod opts out": lambda world: add_pod(world, pod_labels={labels.DISABLE_AUTOPROVISIONING: "true"}),
    "pod names its pool": lambda world: add_pod(world, template=a_template(selectors={labels.NODE_POOL: "mine"})),
    "9x9": lambda world: add_pod(world, shape={"topology": "9x9"}),
    "waits": lambda world: world.wait(0, 1),
    "stopped": stop,
    "go pool": keep_go_pool,
    "suspended": suspend,
    "gone": leave,
}
