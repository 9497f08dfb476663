"""One Chromium for all tests, and a board in the middle of a bad night for each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from cli.board.site import Board, listening
from standins.kit.processes import PATIENCE_SECONDS
from tests.browser.browser_tools import find_chromium
from tests.cli.cli_world import a_deployment
from tests.cli.scenes import build
from tests.engine.world import World

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
def world() -> World:
    return build("a bad night").world


@pytest.fixture
def board(world: World) -> Iterator[Board]:
    """A served board, which reads the world again and again."""
    board = Board(a_deployment(world), every=0.2)
    with listening(board):
        yield board


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE_SECONDS * 1000)
    yield context
    context.close()
