"""What every test of the commands gets: short pauses between pulls, and colours only where it asks for them."""

from __future__ import annotations

import os

import pytest

from shared.environment import PREFIX


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.letters.PAUSE_SECONDS", 0.02)


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = [name for name in os.environ if name.startswith(PREFIX)]  # `make env` may stand in the shell
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "COLUMNS", *ours):
        monkeypatch.delenv(name, raising=False)
