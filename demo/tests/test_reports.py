"""Reports: stable keys in JSON, a picture whose bars fit, pages that escape what they show."""

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from demo.loop.drawing import draw
from demo.loop.progress import Refusal
from demo.loop.report import build_report
from demo.loop.run_outcome import Outcome
from demo.loop.timeline import Timeline
from demo.loop.writing import BadReportPath, parse_report_paths, write_report
from demo.tests.report_scenes import Scene

KEYS = {"verified", "slices", "refusals", "pools_left", "speed", "messages", "shared_gke_calls"}
SLICE_KEYS = {
    "workload",
    "slice",
    "pool",
    "machine_type",
    "node_count",
    "topology",
    "placement",
    "tier",
    "reservation",
    "reason",
    "gke_calls",
    "gke_calls_refused",
    "seconds",
    "virtual_seconds",
    "decisions",
}


@pytest.fixture
def outcome() -> Outcome:
    scene = Scene({"train": ["train-slice-0"]})
    scene.wait("train-slice-0", 1)
    scene.decide("train-slice-0", 2, "create", "pool_absent", pool="p", message="<b>& more")
    scene.call("p", 3, "CreateNodePool")
    scene.call("", 3, "ListNodePools")
    scene.list(4, "p", "")
    refusal = Refusal("default", "train", "train-slice-0", "shape_unsupported", "3 <chips>")
    return replace(scene.conclude(10), speed=30.0, refusals=(refusal,), own_list_calls=1)


def test_the_json_report_has_the_promised_keys(outcome: Outcome, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    write_report(path, outcome)
    report = json.loads(path.read_text())
    assert report.keys() >= KEYS
    (one,) = report["slices"]
    assert one.keys() >= SLICE_KEYS
    assert one["seconds"] == {"unschedulable": 1.0, "invoked": 2.0, "accepted": 3.0}
    assert one["virtual_seconds"]["accepted"] == 90.0
    assert report["refusals"][0].keys() == {"workload", "slice", "reason", "message", "by"}


def test_the_demos_own_list_calls_are_not_counted(outcome: Outcome) -> None:
    assert build_report(outcome)["shared_gke_calls"] == {}


def test_the_picture_is_well_formed_and_nothing_leaves_it(outcome: Outcome, tmp_path: Path) -> None:
    path = tmp_path / "out.svg"
    write_report(path, outcome)
    root = ET.fromstring(path.read_text())
    assert root.tag.endswith("svg")
    for lane in draw(outcome).lanes:
        assert lane.bars
        assert all(bar.left >= 0 and bar.left + bar.width <= 100.001 for bar in lane.bars)
        assert all(0 <= mark.left <= 100 for mark in lane.marks)


def test_the_page_escapes_messages_and_shows_decisions_on_hover(outcome: Outcome, tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    write_report(path, outcome)
    text = path.read_text()
    assert "<b>& more" not in text
    assert 'title="2.00 s: provision: create (pool_absent) &lt;b&gt;&amp; more"' in text
    assert "shape_unsupported" in text


def test_an_empty_run_can_be_drawn() -> None:
    empty = Outcome(timeline=Timeline([("default", "cpu")], 0.0), ended_at=1.0, speed=1.0)
    assert draw(empty).lanes == ()


@pytest.mark.parametrize("text", ["out.png", "out", "no/such/folder/out.json"])
def test_a_report_in_an_unknown_form_or_place_is_refused(text: str) -> None:
    with pytest.raises(BadReportPath, match="report "):
        parse_report_paths([text])


def test_several_reports_may_be_asked_for_at_once(tmp_path: Path) -> None:
    paths = parse_report_paths([f"{tmp_path}/a.json {tmp_path}/b.svg", f"{tmp_path}/c.html"])
    assert [path.name for path in paths] == ["a.json", "b.svg", "c.html"]
