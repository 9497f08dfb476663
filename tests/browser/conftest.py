"""One Chromium for all tests, and a board on a scene for each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from cli.board import site
from cli.board.site import Board, listening
from standins.kit.processes import PATIENCE_SECONDS
from tests.browser.board_scene import Scene, a_bad_night
from tests.browser.browser_tools import find_chromium
from tests.cli.cli_world import a_deployment

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 -- of this tier only

    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium's sandbox refuses root
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=find_chromium(), args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """A bad night that a served board reads."""
    scene = a_bad_night(Board(a_deployment(), every=0.2))
    monkeypatch.setattr(site, "read_status", scene.read_status)
    with listening(scene.board):
        yield scene


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE_SECONDS * 1000)
    yield context
    context.close()
