"""Reports: stable keys in JSON, a picture whose bars fit, pages that escape what they show."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from demo.loop.drawing import draw
from demo.loop.observations import Called, Decided, JobSetSeen, PodSeen, PoolsListed, SliceSpec
from demo.loop.progress import Refusal
from demo.loop.report import build_report
from demo.loop.run_outcome import Outcome
from demo.loop.timeline import Timeline
from demo.loop.writing import BadReportPath, parse_report_paths, write_report

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


def decision(at: float, verdict: str, reason: str, message: str = "", pool: str = "p") -> Decided:
    return Decided(
        at=at,
        function="provision",
        decision=verdict,
        reason=reason,
        message=message,
        namespace="default",
        workload="train",
        job="train-slice-0",
        pool=pool,
        machine_type="ct6e-standard-4t",
        node_count=4,
        topology="4x4",
        placement="COMPACT 4x4",
        tier="on-demand",
    )


@pytest.fixture
def outcome() -> Outcome:
    timeline = Timeline([("default", "train")], started_at=100.0)
    pod = PodSeen(
        at=101,
        namespace="default",
        uid="u",
        job="train-slice-0",
        index="0",
        phase="Pending",
        unschedulable="none",
    )
    for each in (
        JobSetSeen(at=100, namespace="default", name="train", slices=(SliceSpec(job="train-slice-0", pods=4),)),
        pod,
        decision(102, "create", "pool_absent", "<b>& more"),
        Called(at=103, method="CreateNodePool", pool="p", code="OK"),
        Called(at=103, method="ListNodePools", pool="", code="OK"),
        PoolsListed(at=104, pools={}),
    ):
        timeline.observe(each)
    refusal = Refusal("default", "train", "train-slice-0", "shape_unsupported", "3 <chips>")
    return Outcome(timeline=timeline, ended_at=110.0, speed=30.0, refusals=(refusal,), own_list_calls=1)


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
