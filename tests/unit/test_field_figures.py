"""The pure parts of benchmarks/field: from a run's record to its figures, its picture, its page."""

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from benchmarks.field.go_stack import GoStack, build_command, read_build_information
from benchmarks.field.google_edge import BadRequest, check_request
from benchmarks.field.heartbeats import build_report
from benchmarks.field.jobsets import build_crowd, build_jobset
from benchmarks.field.page import group_runs, read_records, render
from benchmarks.field.picture import draw_fan_outs, draw_runs
from benchmarks.field.recorder import FirstSeen, ask_again
from benchmarks.field.records import (
    Call,
    FanOut,
    Memory,
    Record,
    Side,
    derive_figures,
    draw_lanes,
    find_minimum_seconds,
)
from demo.loop.observations import JobSetSeen, NodeSeen, PodSeen
from demo.stack.layout import Layout
from demo.stack.stack import Stack

EVIDENCE = Path(__file__).resolve().parents[2] / "docs" / "evidence"
BEGIN = 1_000_000.0
BUILD = """\
manager: go1.26.8
	path	example.com/provisioner/cmd
	mod	example.com/provisioner	v0.0.0-1
	dep	example.com/other	v1.2.3	h1:abc=
	build	-ldflags="-X main.a=b"
	build	vcs=git
	build	vcs.revision=6789e2a
	build	vcs.modified=false
"""


def call(method: str, at: float, pool: str = "", code: str = "OK") -> Call:
    return Call(method=method, pool=pool, code=code, at=BEGIN + at)


def record(**changes: Any) -> Record:
    """Two slices: creates after 2 s and 65 s, over after 100 s, deletes after 110 s and 190 s."""
    calls = [
        call("ListNodePools", -30),
        call("GetNodePool", 1, "a", "NOT_FOUND"),
        call("CreateNodePool", 2, "a"),
        call("CreateNodePool", 3, "a", "FAILED_PRECONDITION"),
        call("CreateNodePool", 65, "b"),
        call("DeleteNodePool", 110, "b"),
        call("DeleteNodePool", 111, "b", "FAILED_PRECONDITION"),
        call("DeleteNodePool", 190, "a"),
    ]
    values: dict[str, Any] = {
        "side": Side.GO,
        "slices": 2,
        "applied_at": BEGIN - 5,
        "unschedulable": {"job-0": BEGIN, "job-1": BEGIN + 1},
        "slice_of_pool": {"a": "job-0", "b": "job-1"},
        "over_at": BEGIN + 100,
        "calls": calls,
        "memory": {"go-provisioner": Memory(largest=50.4, together=49.0)},
        "program": "example.com/provisioner at 6789e2a",
        "machine": "2 cores, Linux x86_64, Python 3.11.7",
    }
    return Record(**values | changes)


def crowd(limit: int = 5, last: float = 40.0, **changes: Any) -> FanOut:
    values: dict[str, Any] = {
        "limit": limit,
        "leaders": 10,
        "speed": 2.0,
        "operation_seconds": 61.0,
        "started_at": BEGIN,
        "accepted_at": [BEGIN + last * number / 10 for number in range(1, 11)],
        "refused": 7,
        "machine": "2 cores, Linux x86_64, Python 3.11.7",
    }
    return FanOut(**values | changes)


def pod(job: str, index: str, *, at: float = 7, phase: str = "Pending", **seen: Any) -> PodSeen:
    plain = {"node": "", "unschedulable": ""} | seen
    return PodSeen(at=at, namespace="default", name="p", uid="u", job=job, index=index, phase=phase, **plain)


def test_figures_are_those_of_a_run_from_its_first_unschedulable_leader_to_its_end() -> None:
    """Calls before the JobSet was applied do not count, and a refused call makes no pool."""
    figures = derive_figures(record())

    assert (figures.first_create, figures.last_create) == (2.0, 65.0)
    assert (figures.first_delete, figures.last_delete) == (10.0, 90.0)
    assert figures.calls == {"CreateNodePool": 3, "DeleteNodePool": 3, "GetNodePool": 1}
    assert (figures.calls_per_slice, figures.reads_per_slice) == (3.5, 0.0)
    assert (figures.refused, figures.pools) == (2, 2)


def test_calls_of_compute_engine_are_counted_by_themselves() -> None:
    found = record()
    read = call("compute.instanceGroupManagers.get", found.applied_at + 1)
    figures = derive_figures(msgspec.structs.replace(found, calls=[*found.calls, read]))

    assert (figures.calls_per_slice, figures.reads_per_slice) == (3.5, 0.5)


def test_a_run_without_deletes_or_end_has_no_figure_for_them() -> None:
    creates = [each for each in record().calls if each.method == "CreateNodePool"]

    assert derive_figures(record(calls=creates)).last_delete is None
    assert derive_figures(record(slices=3)).last_delete is None
    assert derive_figures(record(over_at=0.0)).last_delete is None


@pytest.mark.parametrize("empty", [{"unschedulable": {}}, {"calls": []}])
def test_a_run_in_which_nothing_happened_is_refused_by_the_name_of_the_field(empty: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(empty))):
        derive_figures(record(**empty))


def test_lanes_are_in_the_order_of_the_creates_and_know_the_wait_of_their_own_slice() -> None:
    first, second = draw_lanes(record())

    assert (first.pool, first.unschedulable, first.created, first.deleted) == ("a", 0.0, 2.0, 190.0)
    assert (second.pool, second.unschedulable, second.created, second.deleted) == ("b", 1.0, 65.0, 110.0)


@pytest.mark.parametrize(
    ("leaders", "limit", "seconds"),
    [(1000, 5, 199 * 61), (1000, 20, 49 * 61), (1000, 100, 9 * 61), (7, 5, 61), (5, 5, 0), (3, 5, 0)],
)
def test_the_shortest_possible_time_is_one_operation_for_each_further_round(
    leaders: int, limit: int, seconds: int
) -> None:
    assert find_minimum_seconds(leaders, limit, 61.0) == seconds


def test_the_pools_are_mapped_to_slices_by_the_nodes_that_their_pods_ran_on() -> None:
    seen = FirstSeen()
    seen.note(pod("job-0", "0", at=5, unschedulable="0/1 nodes"))
    seen.note(pod("job-0", "0", at=6, unschedulable="0/1 nodes"))
    seen.note(pod("job-1", "1", unschedulable="0/2 nodes"))
    seen.note(NodeSeen(at=8, name="n", pool="a"))
    seen.note(pod("job-0", "0", node="n", phase="Running"))
    seen.note(JobSetSeen(at=20, namespace="default", name="j", terminal="Completed"))
    seen.note(JobSetSeen(at=21, namespace="default", name="j", terminal="Completed"))

    assert seen.unschedulable == {"job-0": 5}
    assert seen.map_pools() == {"a": "job-0"}
    assert seen.over_at == 20
    assert seen.count_started() == 1


def test_a_broken_connection_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.field.recorder.time.sleep", lambda _seconds: None)
    answers: Iterator[Exception | str] = iter(
        [httpx.RemoteProtocolError("disconnected"), httpx.ReadTimeout("late"), "pools"]
    )

    def ask() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert ask_again(ask) == "pools"


def test_a_jobset_has_one_job_of_four_hosts_for_each_slice() -> None:
    spec = build_jobset(12, 30.0)["spec"]["replicatedJobs"][0]

    assert spec["replicas"] == 12
    assert spec["template"]["spec"]["parallelism"] == 4


@pytest.mark.parametrize(("leaders", "sizes"), [(1000, [100] * 10), (250, [100, 100, 50]), (1, [1])])
def test_a_crowd_is_divided_among_jobsets_with_names_of_their_own(leaders: int, sizes: list[int]) -> None:
    jobsets = build_crowd(leaders, 1.0)

    assert [each["spec"]["replicatedJobs"][0]["replicas"] for each in jobsets] == sizes
    assert len({each["metadata"]["name"] for each in jobsets}) == len(sizes)


def test_a_report_of_a_node_changes_only_the_times() -> None:
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "old", "lastTransitionTime": "old"}

    (reported,) = build_report({"status": {"conditions": [ready]}}, 0.0)["status"]["conditions"]

    assert reported == ready | {"lastHeartbeatTime": "1970-01-01T00:00:00Z"}


def test_the_proxy_leads_to_gke_and_nowhere_else() -> None:
    check_request("CONNECT container.googleapis.com:443 HTTP/1.1\r\nHost: x\r\n\r\n")

    for head in ("CONNECT example.com:443 HTTP/1.1", "GET http://container.googleapis.com/ HTTP/1.1", ""):
        with pytest.raises(BadRequest, match="valid: CONNECT container"):
            check_request(head)


def test_the_source_of_a_go_program_is_read_from_its_file() -> None:
    assert read_build_information(BUILD) == "example.com/provisioner at 6789e2a"
    changed = BUILD.replace("modified=false", "modified=true")
    assert read_build_information(changed) == "example.com/provisioner at 6789e2a, with changed files"
    assert read_build_information("") == "unknown module at unknown commit"


def test_the_go_program_gets_its_own_defaults_and_the_addresses_of_the_local_cloud() -> None:
    command = build_command(Layout(Path("/home")), Path("/bin/go"), {"HTTPS_PROXY": "http://x"}, 8081)

    assert command.restartable
    assert command.environment["HTTPS_PROXY"] == "http://x"
    assert "CONCURRENCY" not in command.environment
    assert command.arguments[0] == "/bin/go"


def test_the_stack_of_the_go_program_replaces_the_two_steps_that_start_ours() -> None:
    for step in ("_start_functions", "_start_exporter"):
        assert step in vars(GoStack)
        assert step in vars(Stack)


def test_pictures_are_well_formed_and_have_a_bar_for_each_part_of_a_lane() -> None:
    picture = ET.fromstring(draw_runs([record(), record(side=Side.OURS, killed_at=BEGIN + 3)]))
    chart = ET.fromstring(draw_fan_outs([crowd(), crowd(limit=2)]))

    bars = picture.findall("{http://www.w3.org/2000/svg}rect")
    legend, background, lanes = 3, 1, 2 * (3 + 3)
    assert len(bars) == lanes + legend + background
    assert len(chart.findall("{http://www.w3.org/2000/svg}polyline")) == 2


def test_the_go_program_is_above_ours_and_runs_with_deaths_come_last() -> None:
    runs = [record(side=Side.OURS), record(killed_at=BEGIN), record(slices=1), record()]

    groups = group_runs(runs)

    assert [title for title, _ in groups] == ["1 slice", "2 slices", "2 slices, killed meanwhile"]
    assert [each.side for each in groups[1][1]] == [Side.GO, Side.OURS]


def test_the_page_has_a_row_for_each_run_and_each_process() -> None:
    page = render([record()], [crowd()])["field.md"]

    assert "| 2 slices | Go TPU Provisioner | 2.0 s | 65.0 s | 3.5 | 0.0 | 10.0 s | 90.0 s | 2 | 2 |" in page
    assert "| run | `go-provisioner` |\n| --- | ---: |\n| 2 slices | 50, 49 |" in page
    assert "| 5 | 10 | 10 | 80 s | 61 s | 1.31 | 7 | 2 |" in page
    assert "`example.com/provisioner`\n  at `6789e2a`" in page


def test_the_page_says_when_the_machine_had_other_work() -> None:
    assert "other work" not in render([record(load=0.4)], [])["field.md"]
    assert "other work" in render([record(load=6.0)], [])["field.md"]


def test_the_page_and_its_pictures_are_what_the_records_say() -> None:
    for name, text in render(*read_records(EVIDENCE / "field")).items():
        assert (EVIDENCE / name).read_text() == text, f"{name}: run `python -m benchmarks.field page`"
