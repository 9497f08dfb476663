"""Drawings of fixed runs: each attempt, what never succeeds, what goes on, headline numbers."""

import re
from collections.abc import Callable
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from demo.loop.drawing import draw
from demo.loop.headlines import Spread, find_headlines
from demo.loop.report import build_report
from demo.loop.run_outcome import Outcome
from demo.loop.stretches import Phase, list_attempts, list_stretches
from demo.loop.writing import read_reasons, render_html, render_svg
from demo.tests.report_scenes import LONG, STARTED_AT, Scene, a_big_run, a_failed_run, a_run_without_pools

WAIT, CREATE, FAILED, PLACE, RUN, OVER, DELETE = Phase
ALL = (a_failed_run, a_run_without_pools, a_big_run)


def stretches(outcome: Outcome, number: int) -> list[tuple[Phase, float, float]]:
    one = list(outcome.timeline.slices.values())[number]
    found = list_stretches(one, outcome.timeline, outcome.ended_at)
    return [(each.phase, each.start - STARTED_AT, each.end - STARTED_AT) for each in found]


def test_each_attempt_is_a_stretch_of_its_own_and_a_slice_that_runs_goes_on() -> None:
    assert stretches(a_failed_run(), 0) == [
        (WAIT, 1, 2), (FAILED, 2, 6), (WAIT, 6, 7), (CREATE, 7, 20), (PLACE, 20, 21), (RUN, 21, 60),
    ]  # fmt: skip


def test_a_slice_whose_creations_never_succeed_waits_until_the_end_of_the_run() -> None:
    outcome = a_failed_run()

    assert stretches(outcome, 1) == [(WAIT, 1, 2), (FAILED, 2, 6), (WAIT, 6, 7), (FAILED, 7, 27), (WAIT, 27, 60)]
    lane = draw(outcome).lanes[1]
    assert (lane.cause, lane.bad) == ("failed: 1 × stockout, 1 × quota", True)  # noqa: RUF001 -- times
    assert [bar.label for bar in lane.bars if bar.phase is FAILED] == ["stockout", "quota"]
    assert [bar.ends for bar in lane.bars] == [True, True, True, True, False]
    assert lane.bars[-1].title == "waits for a node pool, 33.00 s, and it went on"
    assert lane.bars[3].title == "a creation that failed, 20.00 s: quota: attempt 1 failed: CHIPS is used up"


def test_requests_that_gke_refuses_are_crosses_on_a_slice_that_waits() -> None:
    outcome = a_run_without_pools()

    assert stretches(outcome, 0) == [(WAIT, 1, 30)]
    (lane,) = draw(outcome).lanes
    assert lane.cause == "refused: 4 × throttled"  # noqa: RUF001 -- times
    assert [mark.kind for mark in lane.marks if mark.kind != "step"] == ["refused"] * 4
    assert render_svg(outcome).count('<use href="#refused"') == 4 + 1  # and the legend's
    numbers = find_headlines(outcome)
    assert (numbers.demand_to_create, numbers.create_to_running, numbers.running) == (None, None, 0)
    assert (numbers.paid, numbers.calls_per_slice) == (0, 4)
    assert [figure.value for figure in draw(outcome).figures] == ["never", "never", "0 of 0", "4.0"]


def test_a_cause_is_cut_only_where_the_names_leave_no_room() -> None:
    lane = draw(a_failed_run()).lanes[1]
    assert lane.short_cause == lane.cause

    scene = Scene({LONG: [f"{LONG[:53]}-slice-000"]})
    (job,) = scene.workloads[LONG]
    scene.wait(job, 1)
    for attempt, failure in enumerate(("stockout", "reservation", "internal", "addresses")):
        scene.create(job, 2 + 2 * attempt, attempt)
        wrong = {"pool": f"{job}-{attempt}", "failure": failure}
        scene.decide(job, 3 + 2 * attempt, "wait", failure, **wrong)
    (lane,) = draw(scene.conclude(20)).lanes
    assert lane.cause.endswith("1 × internal, 1 × addresses")  # noqa: RUF001 -- times
    assert lane.short_cause.endswith("…")
    assert len(lane.short_cause) >= 30


def test_a_failure_that_no_decision_explains_is_drawn_too() -> None:
    scene = Scene({"train": ["train-slice-0"]})
    scene.wait("train-slice-0", 1)
    scene.create("train-slice-0", 2)
    scene.list(6, "train-slice-0-0", "ERROR")
    outcome = scene.conclude(10)

    assert stretches(outcome, 0) == [(WAIT, 1, 2), (FAILED, 2, 6), (WAIT, 6, 10)]
    assert draw(outcome).lanes[0].cause == "failed: 1 × unexplained"  # noqa: RUF001 -- times


def test_a_pool_that_served_before_the_next_one_did_not_fail() -> None:
    scene = Scene({"train": ["train-slice-0"]})
    scene.wait("train-slice-0", 1)
    scene.create("train-slice-0", 2)
    scene.run("train-slice-0", 10)
    scene.create("train-slice-0", 30, attempt=1)
    outcome = scene.conclude(50)

    (one,) = outcome.timeline.slices.values()
    assert [each.failed_at for each in list_attempts(one, outcome.timeline)] == [None, None]
    assert draw(outcome).lanes[0].cause == ""


def test_a_run_that_ends_well_is_drawn_to_the_deleted_pool_and_counted() -> None:
    outcome = a_big_run()

    phases = [phase for phase, _, _ in stretches(outcome, 11)]
    assert phases == [WAIT, FAILED, WAIT, CREATE, PLACE, RUN, OVER, DELETE]
    assert all(bar.ends for lane in draw(outcome).lanes for bar in lane.bars)
    numbers = find_headlines(outcome)
    assert (numbers.slices, numbers.running, numbers.calls_per_slice) == (12, 12, 3)
    assert numbers.demand_to_create == Spread(1, 1)
    assert numbers.create_to_running == Spread(19 * 60, 19 * 60)
    # Four nodes of four chips; a slice that starts a second later has its nodes for a second less.
    assert numbers.paid == sum(16 * (70 - 20 - number) for number in range(12))
    assert numbers.run == sum(16 * (60 - 21 - number) for number in range(12))


@pytest.mark.parametrize("scene", ALL)
def test_no_bar_overlaps_another_and_none_leaves_the_axis(scene: Callable[[], Outcome]) -> None:
    for lane in draw(scene()).lanes:
        ends = [(bar.left, bar.left + bar.width) for bar in lane.bars]
        assert all(end <= start + 0.01 for (_, end), (start, _) in pairwise(ends))
        assert ends[0][0] >= 0
        assert ends[-1][1] <= 100.01


def test_long_names_are_cut_from_the_front_in_the_picture_and_whole_on_the_page() -> None:
    outcome = a_big_run()
    lane = draw(outcome).lanes[5]

    assert len(lane.short) == 36
    assert lane.short.startswith("…")
    assert lane.name.endswith(lane.short[1:])
    assert f'<span class="name">{lane.name}</span>' in render_html(outcome)


@pytest.mark.parametrize("scene", ALL)
def test_the_picture_is_xml_with_a_legend_of_all_it_shows(scene: Callable[[], Outcome]) -> None:
    picture = render_svg(scene())
    told = [each.text for each in ET.fromstring(picture).iter() if each.text]

    assert {"waits for a node pool", "a creation that failed", "running", "a decision", "refused"} <= set(told)
    assert "<b>at all" not in picture
    assert "prefers-reduced-motion: no-preference" in picture


def test_the_page_has_the_decisions_in_the_order_of_time_with_links_to_the_runbook() -> None:
    page = render_html(a_failed_run())

    table = page.partition('id="decisions"')[2].partition("</table>")[0]
    moments = [float(each) for each in re.findall(r'data-label="at">([\d.]+)<', table)]
    assert moments == sorted(moments)
    assert len(moments) == 5
    linked = set(re.findall(r'href="#([^"]+)"', page))
    assert linked == {"reason-pool_absent", "reason-pool_failed", "reason-quota"}
    assert linked <= set(re.findall(r'id="([^"]+)"', page))
    assert page.index("demand → create") < page.index("Slices in time") < page.index("Not verified")


def test_the_page_has_the_runbooks_words_without_its_marks() -> None:
    found = read_reasons(["stockout", "workload_over", "no such reason"])

    assert list(found) == ["stockout", "workload_over"]
    assert found["workload_over"].startswith("- Means: ")
    assert not re.search(r"\*\*|`|\]\(", "".join(found.values()))


def test_the_page_offers_each_workload_as_a_filter() -> None:
    outcome = a_big_run()
    page = render_html(outcome)

    for name in outcome.timeline.workloads:
        assert f"<option>{'/'.join(name)}</option>" in page
        assert page.count(f'data-workload="{"/".join(name)}"') >= 3 * 4  # lanes, pools, steps of four slices


def test_the_json_has_the_headlines_and_each_attempt() -> None:
    report = build_report(a_failed_run())

    assert report["headlines"]["demand_to_create"] == {"median": 1.0, "longest": 1.0}
    assert report["headlines"]["running"] == 1
    attempts = report["slices"][1]["attempts"]
    assert [(each["pool"], each["at"], each["failed_at"], each["cause"]) for each in attempts] == [
        ("train-slice-1-0", 2, 6, "stockout"),
        ("train-slice-1-1", 7, 27, "quota"),
    ]


def test_a_slice_whose_nodes_are_taken_back_is_not_drawn_as_running() -> None:
    scene = Scene({"train": ["train-slice-0"]}, hosts=1)
    scene.wait("train-slice-0", 1)
    scene.create("train-slice-0", 2)
    scene.run("train-slice-0", 10)
    scene.lose("train-slice-0", 20)
    scene.wait("train-slice-0", 21)
    scene.create("train-slice-0", 30, attempt=1, failure="stockout")
    scene.run("train-slice-0", 40, attempt=1)
    outcome = scene.conclude(50)

    assert stretches(outcome, 0) == [
        (WAIT, 1, 2), (CREATE, 2, 10), (PLACE, 10, 11), (RUN, 11, 20), (WAIT, 20, 30), (CREATE, 30, 40),
        (PLACE, 40, 41), (RUN, 41, 50),
    ]  # fmt: skip
    assert find_headlines(outcome).run == 4 * (9 + 9)


def test_a_slice_whose_pods_are_done_does_not_wait_when_they_are_gone_with_their_nodes() -> None:
    scene = Scene({"train": ["train-slice-0"]}, hosts=1)
    scene.wait("train-slice-0", 1)
    scene.create("train-slice-0", 2)
    scene.run("train-slice-0", 10)
    scene.bind("train-slice-0", 15, node="train-slice-0-0-node-0", phase="Succeeded")
    scene.lose("train-slice-0", 17)
    outcome = scene.conclude(30)
    assert stretches(outcome, 0)[-1] == (RUN, 11, 30)

    scene.wait("train-slice-0", 20)  # it is made again
    assert stretches(scene.conclude(30), 0)[-2:] == [(RUN, 11, 20), (WAIT, 20, 30)]


def test_a_pool_that_is_given_back_is_drawn_and_its_name_may_come_again() -> None:
    scene = Scene({"train": ["train-slice-0"]}, hosts=1)
    scene.wait("train-slice-0", 1)
    for at in (2, 20):
        scene.create("train-slice-0", at)
        scene.node("train-slice-0-0", at + 4)
        scene.call("train-slice-0-0", at + 8, "DeleteNodePool")
        scene.node("train-slice-0-0", at + 9, gone=True)
        scene.list(at + 10, "train-slice-0-0", "")
    outcome = scene.conclude(40)

    assert stretches(outcome, 0) == [
        (WAIT, 1, 2), (CREATE, 2, 6), (PLACE, 6, 10), (DELETE, 10, 12), (WAIT, 12, 20),
        (CREATE, 20, 24), (PLACE, 24, 28), (DELETE, 28, 30), (WAIT, 30, 40),
    ]  # fmt: skip
    assert draw(outcome).lanes[0].cause == ""


def test_a_slice_that_finds_the_pool_of_another_one_counts_for_no_creation() -> None:
    scene = Scene({"tune": ["tune-slice-0"], "evaluate": ["evaluate-slice-0"]}, hosts=1)
    scene.wait("tune-slice-0", 1)
    scene.create("tune-slice-0", 2)
    scene.run("tune-slice-0", 10)
    scene.wait("evaluate-slice-0", 30)
    scene.decide("evaluate-slice-0", 31, "keep", "pool_serves", pool="tune-slice-0-0")
    scene.bind("evaluate-slice-0", 33, node="tune-slice-0-0-node-0")
    outcome = scene.conclude(40)

    assert stretches(outcome, 1) == [(PLACE, 30, 33), (RUN, 33, 40)]
    assert find_headlines(outcome).demand_to_create == Spread(1, 1)
