"""One Chromium for all tests, and a board on a scene for each."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from cli.board import readings
from cli.board import site as sites
from cli.board.acts import Act
from cli.board.listening import listening
from cli.board.site import Site
from standins.processes.stand_ins import PATIENCE_SECONDS
from tests.browser.board_scene import Scene, a_bad_night
from tests.browser.browser_tools import find_chromium
from tests.cli.cli_world import a_deployment
from tests.engine.world import World

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

REBOUND = "rebound.example"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 -- of this tier only

    arguments = [f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1"]
    arguments += ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium's sandbox refuses root
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=find_chromium(), args=arguments)
        yield browser
        browser.close()


@dataclass
class Shown:
    """A board that is served: its address, what it reads, and what was done on it."""

    site: Site
    scene: Scene
    world: World
    done: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        return self.site.address


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shown]:
    scene, world = a_bad_night(), World()
    open_logs: Any = object()  # there are logs; what they hold is the scene's
    deployment = dataclasses.replace(a_deployment(world), open_logs=open_logs)
    act = Act(name="press", label="Stockout", about="The next pool fails.", perform=lambda: note("press"))
    site = Site(deployment, write=True, acts=[act], every=0.2)
    shown = Shown(site, scene, world)

    def note(*told: Any) -> str:
        shown.done.append(" ".join(map(str, told)))
        return "it is done"

    monkeypatch.setattr(readings, "look", scene.look)
    monkeypatch.setattr(readings, "read_answers", lambda *_arguments, **_options: scene.decisions)
    monkeypatch.setattr(readings, "read_records", lambda _deployment, span, **_options: scene.list_records(span))
    monkeypatch.setattr(readings, "list_dead_letters", lambda _deployment: scene.dead_letters)
    monkeypatch.setattr(readings, "SLOW_FACTOR", 1)
    monkeypatch.setattr(sites, "replay_dead_letter", lambda _deployment, number: note("replay", number))
    monkeypatch.setattr(sites, "discard_dead_letter", lambda _deployment, number: note("discard", number))
    monkeypatch.setattr(sites, "tell", lambda _deployment, _cluster, home, name: Told(f"of {home}/{name}"))
    with listening(site):
        yield shown


@dataclass
class Told:
    """As `cli.explanation.why.History`."""

    text: str

    def as_data(self) -> dict[str, Any]:
        entry = {"time": "2027-01-15T07:58:00Z", "source": "event", "about": "Pod x", "text": self.text}
        return {"entries": [entry | {"bad": False, "detail": False}], "unread": ["logs: no answer"]}


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE_SECONDS * 1000)
    yield context
    context.close()
