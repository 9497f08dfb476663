"""Every test of the commands gets short pauses between pulls, and colours only where it asks."""

import os
from pathlib import Path

import pytest

from shared.settings import PREFIX
from tests.cli.cli_world import a_deployment, put_in_place
from tests.cli.scenes import build
from tests.engine.world import World


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes the screens anew."""
    parser.addoption("--write", action="store_true", help="write what the commands print into tests/cli/screens")


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.messages.replay.PAUSE_SECONDS", 0.02)


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


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A world with one JobSet of two slices; every command opens its deployment."""
    return let_open(monkeypatch, "cluster")


@pytest.fixture
def half_served(monkeypatch: pytest.MonkeyPatch) -> World:
    """One slice served, the second one waiting for its pool, which failed 50 s ago."""
    return let_open(monkeypatch, "half served")


def let_open(monkeypatch: pytest.MonkeyPatch, scene: str) -> World:
    world = build(scene).world
    put_in_place(monkeypatch, a_deployment(world))
    return world
