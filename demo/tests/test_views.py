"""The live timeline on terminals of 80 and more columns, and what a pipe gets."""

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from demo.loop.run_outcome import Outcome
from demo.loop.states import FeedLine
from demo.loop.steps import Step
from demo.loop.tables import print_outcome
from demo.loop.views import LiveView, PlainView
from demo.tests.report_scenes import STARTED_AT, a_big_run, a_failed_run, a_run_without_pools


def show(outcome: Outcome, width: int, height: int = 24, *, lines: int = 20) -> list[str]:
    """The lines of the live view when the run ends."""
    console = Console(width=width, height=height, file=io.StringIO())
    view = LiveView(console, 60.0)
    jobs = [one.job for one in outcome.timeline.slices.values()]
    feed = [
        FeedLine(STARTED_AT + number, jobs[number % len(jobs)], f"settle decided keep, line {number}")
        for number in range(lines)
    ]
    view.show(feed, outcome.timeline, outcome.ended_at)
    with console.capture() as captured:
        console.print(view._draw(outcome.timeline, outcome.ended_at))
    return captured.get().rstrip().splitlines()


def test_at_80_columns_each_slice_has_two_lines_with_its_name_steps_and_failures() -> None:
    lines = show(a_failed_run(), 80)

    at = next(number for number, line in enumerate(lines) if line.startswith("train-slice-0 "))
    assert lines[at].rstrip().endswith("● ○ ● ● ● ● ● ● ◐ ○ ○")
    assert lines[at + 1].startswith("  all pods are running, 39 s ago   provision: create (pool_failed)")
    assert lines[at + 2].startswith("train-slice-1 ")
    assert lines[at + 3].startswith("  failed: 1 × stockout, 1 × quota   settle: wait (quota)")  # noqa: RUF001
    assert lines[-1] == "  19.00 s  train-slice-1  settle decided keep, line 19"


def test_at_80_columns_long_names_are_cut_from_the_front() -> None:
    lines = show(a_big_run(), 80)

    names = [line.split()[0] for line in lines if "●" in line]
    assert {len(name) for name in names} == {80 - 2 * 11 - 1}
    assert [name[0] + name[-9:] for name in names[:2]] == ["…slice-000", "…slice-001"]
    assert lines[-1].split()[2].startswith("…")
    assert lines[-1].split()[2].endswith("-slice-003")
    assert lines[-1].endswith("settle decided keep, line 19")


@pytest.mark.parametrize("width", [60, 80, 110, 200])
@pytest.mark.parametrize("height", [24, 50])
def test_the_live_view_fits_the_terminal_whatever_it_shows(width: int, height: int) -> None:
    lines = show(a_big_run(), width, height)

    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert lines[-1].startswith("  19.00 s ")
    steps = [line for line in lines if "●" in line]
    assert len(steps) >= 6
    assert all("-slice-0" in line and line.count("● ") == 10 for line in steps)


def test_a_wide_terminal_has_one_line_for_each_slice() -> None:
    lines = show(a_failed_run(), 140, 50)

    (line,) = [each for each in lines if each.startswith("train-slice-1 ")]
    assert "●" in line
    assert "failed: 1 × stockout, 1 × quota" in line  # noqa: RUF001 -- times


@pytest.mark.parametrize("scene", [a_failed_run, a_run_without_pools, a_big_run])
def test_at_80_columns_the_results_are_stacked_and_nothing_is_left_out(scene: Callable[[], Outcome]) -> None:
    outcome = scene()
    console = Console(width=80, file=io.StringIO())
    with console.capture() as captured:
        print_outcome(console, outcome)
    text = captured.get()

    assert max(map(len, text.splitlines())) <= 80
    assert "┃" not in text
    for one in outcome.timeline.slices.values():
        assert one.job in text
        assert f"stuck {one.steps[Step.UNSCHEDULABLE] - STARTED_AT:.1f}" in text
        for each in one.decisions:
            assert f"{each.function}: {each.decision} ({each.reason})" in text


def test_a_wide_terminal_or_a_pipe_has_tables() -> None:
    console = Console(width=200, file=io.StringIO())
    with console.capture() as captured:
        print_outcome(console, a_failed_run())

    assert "┃ slice" in captured.get()


def test_a_pipe_gets_whole_names_and_no_colours() -> None:
    stream = io.StringIO()
    outcome = a_big_run()
    (name, *_) = [one.job for one in outcome.timeline.slices.values()]

    PlainView(Console(width=80, file=stream)).show(
        [FeedLine(STARTED_AT + 1, name, "the node pool is gone " * 5, "good")], outcome.timeline, 0.0
    )

    assert stream.getvalue() == f"   1.00 s  {name}  {'the node pool is gone ' * 5}\n"


def test_no_color_leaves_the_colours_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    console = Console(width=80, file=io.StringIO(), force_terminal=True)
    view = LiveView(console, 60.0)
    with console.capture() as captured:
        console.print(view._draw(a_failed_run().timeline, STARTED_AT + 60))

    assert "failed: 1 × stockout" in captured.get()  # noqa: RUF001 -- times
    assert "\x1b[31m" not in captured.get()
    assert "\x1b[32m" not in captured.get()
