"""The board in Chromium: what it shows, how it is used, what a hostile page or name cannot do."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from cli.board.site import Board, render_page
from cli.usage.chart import write_html
from cli.usage.usage_command import list_columns
from shared.model.errors import Denied
from shared.model.pools import PoolStatus
from standins.kit.local_answers import Answer, Asked, LocalAnswers
from tests.browser.browser_tools import find_axe
from tests.engine.world import World

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PICTURES = {("laptop", "light"), ("phone", "dark")} if os.environ.get("BOARD_SCREENSHOTS") else set()
"""Those of the docs, which are taken on demand."""
DOCS = Path(__file__).resolve().parents[2] / "docs"
HOSTILE = "<img src=x onerror=\"document.title='owned'\"><b>bold</b>"
SIZES = {"phone": (390, 780), "laptop": (1280, 900), "wall": (2560, 1440)}


def open_board(context: BrowserContext, board: Board) -> tuple[Page, list[str]]:
    """Open the board, and collect what the browser complains about."""
    page, problems = context.new_page(), list[str]()
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(board.address)
    page.get_by_text(re.compile("^live, read at")).wait_for()
    return page, problems


def rows_of(page: Page, table: str) -> list[str]:
    """The rows of a table."""
    return list(page.locator(f"#{table} tbody tr").all_inner_texts())


def test_it_shows_what_waits_and_what_needs_a_person(board: Board, context: BrowserContext) -> None:
    page, problems = open_board(context, board)

    paused, refused = rows_of(page, "waiting")
    assert "1 x stockout" in paused
    assert "08:01 UTC" in paused
    assert "the next try follows after a pause: [GCE_STOCKOUT] [paused]" in paused
    assert "refuse: a limit of the operator leaves no room for 16 more chips" in refused
    assert len(rows_of(page, "pools")) == 3
    assert page.locator("#troubles li").count() == 1
    assert page.locator("#waiting tr[data-stuck=true]").count() == 1
    assert problems == []


def test_an_open_page_follows_without_being_loaded_again(
    board: Board, world: World, context: BrowserContext
) -> None:
    page, problems = open_board(context, board)
    page.evaluate("window.same = true")

    world.cluster.pods, world.gke.pools = {}, {}

    page.get_by_text("Nothing waits for a pool.").wait_for()
    page.get_by_text("There are no pools of the provisioner.").wait_for()
    assert page.evaluate("window.same") is True
    assert problems == []


def test_hostile_names_are_text(board: Board, world: World, context: BrowserContext) -> None:
    pool = next(iter(world.gke.pools.values()))
    hostile = structs.replace(pool, name=HOSTILE, status=PoolStatus.ERROR, error=HOSTILE)
    world.gke.pools = {HOSTILE: hostile}
    world.add(HOSTILE, "unreadable")
    world.fail("get JobSet unreadable", Denied(HOSTILE))
    page, problems = open_board(context, board)

    for table in ("waiting", "pools"):
        assert HOSTILE in "".join(rows_of(page, table))
    assert HOSTILE in page.locator("#unread").inner_text()
    assert page.locator("img, b").count() == 0
    assert page.title() == "TPU Provisioner board"
    assert problems == []


def test_the_filter_is_used_by_keyboard_and_survives_a_reading(
    board: Board, world: World, context: BrowserContext
) -> None:
    page, _ = open_board(context, board)

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "filter"
    page.keyboard.type("nightly")

    page.wait_for_function("document.querySelectorAll('#pools tbody tr').length === 1")
    world.cluster.pods = {}
    page.get_by_text("Nothing waits for a pool.").wait_for()
    assert len(rows_of(page, "pools")) == 1
    assert page.evaluate("document.activeElement.id") == "filter"


def test_a_board_that_has_ended_says_so(board: Board, context: BrowserContext) -> None:
    page, _ = open_board(context, board)

    board.token = "another"

    page.get_by_text("the last reading failed (HTTP 403); trying again").wait_for()


def test_a_file_shows_its_reading_and_loads_nothing(board: Board, context: BrowserContext, tmp_path: Path) -> None:
    (tmp_path / "run.html").write_bytes(render_page(board.read()))
    page, problems = context.new_page(), list[str]()
    page.on("request", lambda request: problems.append(request.url))

    page.goto((tmp_path / "run.html").as_uri())

    page.get_by_text(re.compile("^kept at")).wait_for()
    assert len(rows_of(page, "pools")) == 3
    assert problems[1:] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_axe_finds_nothing_and_nothing_is_clipped(board: Board, browser: Browser, scheme: Any, size: str) -> None:
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, bypass_csp=True, reduced_motion="reduce"
    )
    page, _ = open_board(context, board)
    page.evaluate(find_axe())
    found = page.evaluate("axe.run()")
    wide = page.evaluate("document.documentElement.scrollWidth")
    if (size, scheme) in PICTURES:
        page.screenshot(path=DOCS / f"board-{size}.png")
    context.close()

    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]] == []
    assert len(found["passes"]) > 20
    assert wide <= width


def a_page(_asked: Asked) -> Answer:
    """A page of another origin on this computer."""
    return Answer(200, b"<title>another</title>", "text/html")


TRY = """async ([url, options]) => {
  try { const answer = await fetch(url, options); return `${answer.type} ${await answer.text()}`; }
  catch (error) { return "blocked"; }
}"""


def test_a_page_of_another_site_reads_nothing_even_with_the_token(board: Board, context: BrowserContext) -> None:
    address = board.address
    page = context.new_page()
    with LocalAnswers(a_page) as another_site:
        page.goto(another_site.url)

        assert page.evaluate(TRY, [address, {}]) == "blocked"
        assert page.evaluate(TRY, [address, {"mode": "no-cors"}]) == "blocked"


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_of_usage_fits_a_phone_and_a_hostile_name_is_text(browser: Browser, width: int) -> None:
    row = (HOSTILE, Counter(pools=2, chip_hours=30, unpriced_chip_hours=30))
    bars = [(HOSTILE, 30.0, "30.0")]
    page = browser.new_page(viewport={"width": width, "height": 800})

    page.set_content(write_html("Chip-hours", bars, list_columns("namespace"), [row], ["Not your bill."]))

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("svg text").text_content() == f"{HOSTILE}: 30.0"
    assert page.locator("img").count() == 0
    head = page.locator("thead th").first.bounding_box()
    assert head is not None
    assert (head["x"] >= 0) == (width > 600), "on a phone each cell has its heading"
    page.close()
