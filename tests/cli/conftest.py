"""Every test of the commands gets short pauses between pulls, and colours only where it asks."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.environment import PREFIX
from tests.builders import CLUSTER, NOW, a_claim, a_foreign_pool, a_pod, a_pool
from tests.cli.cli_world import a_deployment, put_in_place
from tests.component.world import World
from tests.contract.stand_ins import stand_in
from tests.log_records import Records


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.messages.dead_letters.PAUSE_SECONDS", 0.02)


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = [name for name in os.environ if name.startswith(PREFIX)]  # `make env` may stand in the shell
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "COLUMNS", *ours):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _nobody_s_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No file of the person who runs the tests chooses a deployment."""
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "absent.json"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Pub/Sub without topics."""
    with stand_in(tmp_path_factory.mktemp("broker"), "standins.pubsub", "serve") as ports:
        yield ports["rest"]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A world with one JobSet and nothing else, whose deployment every command opens."""
    world = World(Records())
    put_in_place(monkeypatch, a_deployment(world))
    return world


@pytest.fixture
def half_served(world: World) -> World:
    """One slice served, the second one waiting for its pool, which failed."""
    second = a_claim(slice_key="default/train-workers-1")
    failed = a_pool("ERROR", claim=second, error="[GCE_STOCKOUT]", age_seconds=50)
    world.pools.add(CLUSTER, a_pool(age_seconds=300), failed, a_foreign_pool())
    world.cluster.add(a_pod(node_name="n"))
    world.cluster.add(a_pod(index=1, created_at=NOW - 4100, unschedulable_since=NOW - 4100))
    return world
