"""Every test of the commands gets short pauses between pulls, and colours only where it asks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from shared.environment import PREFIX
from tests.cli.cli_world import a_deployment, put_in_place
from tests.component.world import Records, World
from tests.contract.stand_ins import stand_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.messages.letters.PAUSE_SECONDS", 0.02)


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = [name for name in os.environ if name.startswith(PREFIX)]  # `make env` may stand in the shell
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "COLUMNS", *ours):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _nobody_s_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No file of the person who runs the tests chooses a deployment."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no-kubeconfig"))
    monkeypatch.setattr("cli.access.contexts.LOCAL_STACK", tmp_path / "no-stack.json")


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
