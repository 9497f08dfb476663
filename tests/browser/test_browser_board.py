"""The board in Chromium: what it shows, how it is used, what a hostile page or name cannot do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from standins.processes.local_answers import Answer, Asked, LocalAnswers
from tests.browser.board_scene import HOSTILE, a_dead_letter
from tests.browser.browser_tools import find_axe
from tests.browser.conftest import REBOUND, Shown
from tests.cli.board_rows import a_row, a_wait

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SCREENSHOTS = os.environ.get("BOARD_SCREENSHOTS")
DOCS = Path(__file__).resolve().parents[2] / "docs"
LANES = 6
SIZES = {"phone": (360, 780), "laptop": (1280, 900), "wall": (2560, 1440)}


def open_board(context: BrowserContext, board: Shown) -> tuple[Page, list[str]]:
    """Open the board, and collect what the browser complains about."""
    page, problems = context.new_page(), list[str]()
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(board.address)
    page.get_by_text("live", exact=True).wait_for()
    return page, problems


def lane_of(page: Page, owner: str, title: str = "") -> Any:
    """The lane of a workload whose title begins so."""
    lanes = page.locator("#lanes > li", has=page.get_by_text(owner, exact=True))
    return lanes.filter(has_text=title) if title else lanes


def test_it_shows_what_waits_what_failed_and_what_needs_a_person(board: Shown, context: BrowserContext) -> None:
    page, problems = open_board(context, board)

    assert page.locator("#lanes > li").count() == LANES
    assert "3 pools, 2 needs waiting, 2 need a person" in page.locator("#summary").inner_text()
    failing, waiting = (lane_of(page, "prod/llama-pretrain", title) for title in ("slot 1", "wait"))
    assert waiting.get_attribute("data-stuck") == "true"
    assert failing.locator("[data-phase=failed]").count() == 4
    assert "a creation that failed (stockout)" in failing.locator(".track").get_attribute("aria-label")
    assert "the next try follows after a pause [paused]" in waiting.locator(".why").inner_text()
    assert lane_of(page, "research/odd-shape").locator("[data-phase=wait]").count() == 1
    assert lane_of(page, "prod/nightly-eval").locator("[data-phase=over]").count() == 1
    rows = page.locator("#pools tr")
    assert rows.count() == 3
    assert "prod/llama-pretrain" in rows.all_inner_texts()[0] + rows.all_inner_texts()[1]
    assert page.locator("#decisions li").count() == 4
    assert problems == []


def test_an_open_page_follows_without_being_loaded_again(board: Shown, context: BrowserContext) -> None:
    page, problems = open_board(context, board)
    page.evaluate("window.same = true")

    board.scene.waiting = [a_wait(workload="new", waiting_seconds=3.0)]
    board.scene.dead_letters = []

    lane_of(page, "default/new").wait_for()
    page.get_by_text("There are no dead letters.").wait_for()
    assert "3 pools, 1 need waiting" in page.locator("#summary").inner_text()
    assert page.evaluate("window.same") is True
    assert problems == []


def test_hostile_names_are_text(board: Shown, context: BrowserContext) -> None:
    board.scene.waiting = [
        a_wait(shape=HOSTILE, workload=HOSTILE, message=HOSTILE, error=HOSTILE, stuck=True, failure="stockout")
    ]
    board.scene.pools = [a_row(HOSTILE, workload=HOSTILE, message=HOSTILE, failure="x")]
    board.scene.dead_letters = [a_dead_letter("7", subject=HOSTILE, error=HOSTILE)]
    board.scene.errors = [f"cluster: {HOSTILE}"]
    page, problems = open_board(context, board)

    lane = lane_of(page, f"default/{HOSTILE}", "wait").first
    lane.wait_for()
    lane.locator("summary").click()
    assert HOSTILE in page.locator("#pools").inner_text()
    assert HOSTILE in page.locator("#letters").inner_text()
    assert page.locator("img, b").count() == 0
    assert page.title() == "TPU Provisioner board"
    assert problems == []


def test_all_of_it_is_used_by_keyboard(board: Shown, context: BrowserContext) -> None:
    page, _ = open_board(context, board)

    def focus(wanted: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("wanted => document.activeElement.matches(wanted)", wanted):
                return
        raise AssertionError(f"{wanted} gets no focus")

    focus("#filter")
    page.keyboard.type("tuning")
    page.wait_for_function("document.querySelectorAll('#lanes > li').length === 1")
    focus("#window")
    focus("summary")
    page.keyboard.press("Enter")
    focus("details button")
    page.keyboard.press("Enter")
    page.get_by_text("of prod/tuning-42").wait_for()
    assert "not read: logs: no answer" in page.locator("#history").inner_text()
    page.keyboard.press("Escape")
    assert not page.locator("#history").is_visible()
    assert page.evaluate("document.activeElement.matches('details button')")
    focus(".scroll")


@pytest.mark.parametrize(("verb", "done"), [("Replay", "replay 101"), ("Discard", "discard 101")])
def test_a_dead_letter_is_acted_on_after_two_questions(
    board: Shown, context: BrowserContext, verb: str, done: str
) -> None:
    page, _ = open_board(context, board)
    button = page.get_by_role("button", name=f"{verb} dead letter 101")

    button.click()
    assert "(question 1 of 2)" in page.locator("#question-title").inner_text()
    assert page.evaluate("document.activeElement.id") == "question-no"
    page.keyboard.press("Enter")  # Cancel has the focus
    button.click()
    page.locator("#question-yes").click()
    assert "(question 2 of 2)" in page.locator("#question-title").inner_text()
    assert page.evaluate("document.activeElement.id") == "question-no"
    page.keyboard.press("Escape")
    assert board.done == []

    button.click()
    page.locator("#question-yes").click()
    page.locator("#question-yes").click()
    page.get_by_text("it is done").wait_for()
    assert board.done == [done]


def test_a_read_only_board_has_no_buttons(board: Shown, context: BrowserContext) -> None:
    board.site._write = False
    page, _ = open_board(context, board)

    page.get_by_text("The board is read-only.").wait_for()
    assert page.get_by_role("button", name="Replay").count() == 0
    assert page.get_by_role("button", name="Stockout").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_axe_finds_nothing_and_nothing_is_clipped(board: Shown, browser: Browser, scheme: Any, size: str) -> None:
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, bypass_csp=True, reduced_motion="reduce"
    )
    page, _ = open_board(context, board)
    lane_of(page, "prod/llama-pretrain", "slot 1").locator("summary").click()
    page.get_by_role("button", name="Discard dead letter 101").click()
    page.evaluate(find_axe())
    found = page.evaluate("axe.run()")
    page.keyboard.press("Escape")
    behind = page.evaluate("axe.run()")
    wide = page.evaluate("document.documentElement.scrollWidth")
    context.close()

    told = [
        (each["id"], [node["html"] for node in each["nodes"]])
        for each in found["violations"] + behind["violations"]
    ]
    assert told == []
    assert len(behind["passes"]) > 20
    assert wide <= width


def a_page(_asked: Asked) -> Answer:
    """A page of another origin on this computer."""
    return Answer(200, b"<title>another</title>", "text/html")


TRY = """async ([url, options]) => {
  try { const answer = await fetch(url, options); return `${answer.type} ${await answer.text()}`; }
  catch (error) { return "blocked"; }
}"""


def test_a_page_of_another_site_reads_and_changes_nothing_even_with_the_token(
    board: Shown, context: BrowserContext
) -> None:
    token, root = board.site.token, f"http://127.0.0.1:{board.site.port}"
    page = context.new_page()
    with LocalAnswers(a_page) as another_site:
        page.goto(another_site.url)
        plain = {"method": "POST", "mode": "no-cors", "body": "{}"}
        own = {
            "method": "POST",
            "headers": {"X-Board-Token": token, "Content-Type": "application/json"},
            "body": "{}",
        }

        assert page.evaluate(TRY, [f"{root}/acts/press?token={token}", plain]) == "blocked"
        assert page.evaluate(TRY, [f"{root}/acts/press", own]) == "blocked"
        assert page.evaluate(TRY, [f"{root}/?token={token}", {}]) == "blocked"
        assert page.evaluate(TRY, [f"{root}/?token={token}", {"mode": "no-cors"}]) == "blocked"
    assert board.done == []


def test_a_rebound_name_gets_no_answer(board: Shown, context: BrowserContext) -> None:
    page = context.new_page()

    answer = page.goto(f"http://{REBOUND}:{board.site.port}/?token={board.site.token}")

    assert answer is not None
    assert answer.status == 403
    assert "Host: is not this board's" in page.content()


@pytest.mark.skipif(not SCREENSHOTS, reason="the pictures are only taken with BOARD_SCREENSHOTS=1")
@pytest.mark.parametrize(("size", "scheme"), [("laptop", "light"), ("phone", "dark")])
def test_the_pictures_of_the_docs(board: Shown, browser: Browser, size: str, scheme: Any) -> None:
    width, height = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height * 3 // 2}, color_scheme=scheme)
    page, _ = open_board(context, board)
    page.screenshot(path=DOCS / f"board-{size}.png")
    context.close()

    assert (DOCS / f"board-{size}.png").stat().st_size < 200_000
