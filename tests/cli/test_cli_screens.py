"""Does each command print what it printed, in each situation? The screens are read in review."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from shared.model import labels
from shared.model.errors import Denied
from shared.model.workloads import Disk
from tests.builders import CLUSTER, a_claim, a_pool
from tests.cli.screens import FOLDER, Screen, read_screens, write_screen
from tests.engine.world import World

SCREENS = [(path, each) for path in sorted(FOLDER.glob("*.txt")) for each in read_screens(path)]
CLUSTERS = {CLUSTER: {"endpoint": "http://127.0.0.1:9", "zone": "us-east5-b"}}


def opt_out(world: World) -> None:
    """The namespace of the JobSet wants no pools."""
    world.cluster.labels["team-a"] = {labels.DISABLE_AUTOPROVISIONING: "true"}


def run_both(world: World) -> None:
    """Two slices run of a JobSet that a manifest describes."""
    world.wait(0, 1)
    world.provision()
    for number, name in enumerate(list(world.gke.pools)):
        world.run(number, name)


def run_made(world: World) -> None:
    """Pools run of RayClusters, two of which a RayJob can have made."""
    for name in ("train-b2c4d", "train-x9zzz", "train-small", "train-head-of-b2c4d"):
        pool = a_pool(claim=a_claim(kind="RayCluster", name=name), name=f"pool-of-{name}")
        world.gke.pools[pool.name] = pool


def bind_disk(world: World) -> None:
    """The disk of every claim is in one zone."""
    vars(world.cluster)["find_disk"] = lambda *_claim: Disk(claim="data", zones=("us-east5-a",))


def refuse_disks(world: World) -> None:
    """Nobody may read a claim."""

    def refuse(*_claim: str) -> None:
        raise Denied("persistentvolumeclaims is forbidden")

    vars(world.cluster)["find_disk"] = refuse


SCENES: dict[str, Callable[[World], None]] = {
    "cluster": lambda _world: None,
    "opted out": opt_out,
    "two run": run_both,
    "made by ray": run_made,
    "disk": bind_disk,
    "no disks": refuse_disks,
}


@pytest.mark.parametrize(("path", "screen"), SCREENS, ids=[each.title for _, each in SCREENS])
def test_a_command_prints_its_screen(
    path: Path, screen: Screen, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    environ = {}
    if screen.scene:
        SCENES[screen.scene](request.getfixturevalue("world"))
        environ = {"TPU_PROVISIONER_CLUSTERS": json.dumps(CLUSTERS)}

    output = screen.show(environ, tmp_path)

    if request.config.getoption("--write", default=False):
        write_screen(path, screen, output)
        return
    assert output == screen.output
