"""The report of a run in Chromium: nothing is clipped on a phone, and the filter works."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from demo.loop.run_outcome import Outcome
from demo.loop.writing import write_report
from demo.tests.report_scenes import a_big_run, a_failed_run, a_run_without_pools
from tests.browser.browser_tools import find_axe

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SCENES = (a_failed_run, a_run_without_pools, a_big_run)
PHONE, LAPTOP = (360, 780), (1280, 900)

CUT = """() => [...document.querySelectorAll("body *")].filter((each) => {
  const box = each.getBoundingClientRect();
  if (!box.width || each.closest("thead, script")) return false;
  const outside = box.left < -0.5 || box.right > document.documentElement.clientWidth + 0.5;
  return outside || each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).overflowX !== "visible";
}).map((each) => each.outerHTML.slice(0, 200))"""
"""What is outside of the page, or cut by its own box. A phone does not show the heads of tables."""

OUTSIDE = """() => [...document.querySelectorAll("text")].filter((each) => {
  const box = each.getBoundingClientRect();
  const page = document.documentElement.getBoundingClientRect();
  return box.left < page.left || box.right > page.right || box.top < page.top || box.bottom > page.bottom;
}).map((each) => each.textContent)"""

TOUCHING = """() => [...document.querySelectorAll("g")].filter((lane) => {
  const [name, cause] = [...lane.children].filter((each) => each.tagName === "text");
  return cause?.classList.contains("cause")
    && name.getBoundingClientRect().right > cause.getBoundingClientRect().left;
}).map((lane) => lane.textContent)"""


@pytest.mark.parametrize(
    ("scene", "size", "scheme"),
    [
        (a_failed_run, PHONE, "light"),
        (a_failed_run, PHONE, "dark"),
        (a_failed_run, LAPTOP, "light"),
        (a_run_without_pools, PHONE, "light"),
        (a_big_run, PHONE, "light"),
        (a_big_run, LAPTOP, "dark"),
    ],
)
def test_nothing_of_the_page_is_clipped_and_axe_finds_nothing(
    scene: Callable[[], Outcome], size: tuple[int, int], scheme: Any, tmp_path: Path, browser: Browser
) -> None:
    path = tmp_path / "run.html"
    write_report(path, scene())
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    page, problems = context.new_page(), list[str]()
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(path.as_uri())
    wide = page.evaluate("document.documentElement.scrollWidth")
    cut = page.evaluate(CUT)
    page.evaluate(find_axe())
    found = page.evaluate("axe.run()")
    context.close()

    assert (cut, wide) == ([], size[0])
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]] == []
    assert problems == []


@pytest.mark.parametrize("size", [PHONE, LAPTOP], ids=["phone", "laptop"])
@pytest.mark.parametrize("scene", SCENES)
def test_nothing_of_the_picture_is_clipped_and_a_name_leaves_room_for_the_cause(
    scene: Callable[[], Outcome], size: tuple[int, int], tmp_path: Path, browser: Browser
) -> None:
    path = tmp_path / "run.svg"
    write_report(path, scene())
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, reduced_motion="reduce")
    page = context.new_page()
    page.goto(path.as_uri())
    wide = page.evaluate("document.documentElement.getBoundingClientRect().width")
    outside, touching = page.evaluate(OUTSIDE), page.evaluate(TOUCHING)
    context.close()

    assert wide <= size[0]
    assert (outside, touching) == ([], [])


def test_a_workload_is_chosen_by_keyboard_and_a_reason_leads_to_the_runbooks_words(
    tmp_path: Path, context: BrowserContext
) -> None:
    path, outcome = tmp_path / "run.html", a_big_run()
    write_report(path, outcome)
    page = context.new_page()
    page.goto(path.as_uri())
    lanes = page.locator(".lane:visible")
    assert lanes.count() == 12

    page.get_by_label("Workload").focus()
    page.keyboard.press("ArrowDown")

    assert lanes.count() == 4
    chosen = page.get_by_label("Workload").input_value()
    assert {each.get_attribute("data-workload") for each in lanes.all()} == {chosen}
    assert page.locator("#decisions tbody tr:visible").count() == 4 * 3
    page.get_by_role("link", name="workload_over").first.click()
    assert page.url.endswith("#reason-workload_over")
    assert "Means: the workload is completed or has failed." in page.locator(":target + pre").inner_text()


def test_the_recording_grows_in_time_and_is_whole_without_motion(tmp_path: Path, browser: Browser) -> None:
    path = tmp_path / "run.svg"
    write_report(path, a_failed_run())
    shown = {}
    motions: list[Any] = ["no-preference", "reduce"]
    for motion in motions:
        context = browser.new_context(reduced_motion=motion)
        page = context.new_page()
        page.goto(path.as_uri())
        shown[motion] = page.evaluate("""() => {
          for (const each of document.getAnimations()) { each.pause(); each.currentTime = 6000; }
          const [cover] = document.querySelectorAll(".cover");
          const style = getComputedStyle(cover);
          return [style.opacity, Math.round(new DOMMatrix(style.transform).a * 100)];
        }""")
        context.close()

    assert shown == {"no-preference": ["1", 50], "reduce": ["0", 100]}
