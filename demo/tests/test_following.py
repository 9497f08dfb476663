"""What the demo makes of two statuses, and of the words of `why`, without a stack."""

import io
from typing import Any

import pytest
from rich.console import Console

from cli.explanation.why import Entry, History
from cli.fleet.status import Status
from demo.feed import Feed, draw_table
from demo.following import Followed, find_ending, is_moving, list_reasons
from demo.manifests import BadManifest, Document, load
from demo.run import check_report, choose_controllers
from demo.settings import BadSettings, ClusterKind
from demo.tests.local_commands import ROOT
from tests.cli.board_rows import FIRST, a_row, a_wait
from tests.field.field_world import INPUTS
from tests.program_runs import run_python

NOW = 1000.0


def take(feed: Feed, status: Status, now: float) -> list[str]:
    return [line.plain.rpartition("  ")[2] for line in feed.take(status, now)]


def test_each_change_is_one_line_and_no_change_is_none() -> None:
    feed = Feed(NOW)
    creates = Status(pools=[a_row(state="PROVISIONING", nodes=0)], waiting=[a_wait()])

    assert len(take(feed, creates, NOW + 1)) == 2
    assert take(feed, creates, NOW + 2) == []
    assert take(feed, Status(pools=[a_row(hosts_busy=2)]), NOW + 3) == [f"pool {FIRST}: is in use"]
    assert take(feed, Status(pools=[a_row(hosts_busy=4)]), NOW + 4) == []
    assert take(feed, Status(), NOW + 5) == [f"pool {FIRST}: is gone"]
    assert feed.stories[FIRST].as_cells()[3:] == ["1 s", "3 s", "5 s"]
    (story,) = feed.stories.values()
    assert draw_table([story]).row_count == 1
    assert story.as_row()["message"] == "1 s: GKE creates it; 3 s: is in use; 5 s: is gone"


def test_nodes_that_went_are_told_and_an_idle_pool_once() -> None:
    feed, rows = Feed(NOW), [a_row(hosts_busy=4), a_row(nodes=0), a_row(), a_row(hosts_busy=4), a_row()]

    assert [take(feed, Status(pools=[row]), NOW + at) for at, row in enumerate(rows)][1:] == [
        [f"pool {FIRST}: has lost its nodes"],
        [f"pool {FIRST}: has nodes, and no pod runs on them"],
        [f"pool {FIRST}: is in use"],
        [],
    ]


def test_a_narrow_terminal_keeps_the_moments_of_a_pool() -> None:
    feed = Feed(NOW)
    take(feed, Status(pools=[a_row(workload="a-name-of-some-length", hosts_busy=4)]), NOW + 12)
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(draw_table(list(feed.stories.values())))

    shown = console.export_text()
    assert "IN USE" in shown
    assert "12 s" in shown


def test_what_is_not_answered_is_not_gone() -> None:
    feed = Feed(NOW)
    take(feed, Status(pools=[a_row()], waiting=[a_wait()]), NOW)

    assert take(feed, Status(errors=["no answer"]), NOW + 1) == []
    assert take(feed, Status(pools=[a_row()], waiting=[a_wait()]), NOW + 2) == []


@pytest.mark.parametrize(
    ("status", "ending"),
    [
        ({"conditions": [{"type": "Completed", "status": "True"}]}, "Completed"),
        ({"conditions": [{"type": "Failed", "status": "False"}]}, ""),
        ({"phase": "Succeeded"}, "Succeeded"),
        ({"jobDeploymentStatus": "Complete"}, "Complete"),
        ({}, ""),
    ],
)
def test_a_workload_ends_by_its_own_words(status: dict[str, Any], ending: str) -> None:
    assert find_ending({"status": status}) == ending


def test_a_workload_that_stands_still_is_told_from_one_that_moves() -> None:
    document = Document("x.yaml", {"apiVersion": "v1", "kind": "JobSet", "metadata": {"name": "train"}})
    followed, body = Followed(document, NOW), {"metadata": {"resourceVersion": "1"}}
    status = Status(pools=[a_row(hosts_busy=2)], waiting=[])
    for seconds in (1, 2):
        followed.take(body, status, NOW + seconds)
    assert (followed.changed_at, followed.ran_at) == (NOW + 1, None)

    followed.take(body, Status(pools=[a_row(hosts_busy=4)]), NOW + 3)
    assert (followed.changed_at, followed.ran_at) == (NOW + 3, NOW + 3)
    assert is_moving(a_row(hosts_busy=1))
    assert is_moving(a_row(nodes=0))
    assert not is_moving(a_row(state="ERROR"))
    assert not is_moving(a_row())


def test_why_gives_the_reasons_of_what_stands_still() -> None:
    texts = ("FailedScheduling: 0/2 nodes", "FailedScheduling: 0/1 nodes")
    entries = [Entry(at=NOW, source="event", about="Pod p", text=text, bad=True) for text in texts]
    history = History(cluster="c", namespace="default", name="train", entries=entries)
    history.now = Status(waiting=[a_wait(message="GKE creates it")])

    assert list_reasons(history) == [
        ("pool_in_progress", "GKE creates it"),
        ("event", "Pod p: FailedScheduling: 0/1 nodes"),
    ]
    history.suspended = "is suspended by kueue"
    assert list_reasons(history) == [("suspended", "is suspended by kueue")]


def test_a_kind_chooses_its_controller_and_the_embedded_cluster_names_its_own() -> None:
    body = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "l"}}
    documents = [Document("x.yaml", body)]

    assert choose_controllers(documents, ClusterKind.REAL) == ("lws-0.7",)
    assert choose_controllers(load([str(INPUTS / "no-service-account.yaml")]), ClusterKind.REAL) == ()
    with pytest.raises(BadManifest, match="does not run LeaderWorkerSet; valid: JobSet, Job, Pod; or"):
        choose_controllers(documents, ClusterKind.EMBEDDED)


@pytest.mark.parametrize("path", ["run.json", "no/such/folder/run.html"])
def test_a_report_that_cannot_be_written_is_refused_before_the_run(path: str) -> None:
    with pytest.raises(BadSettings, match="ending in"):
        check_report(path)


def test_an_interrupt_ends_the_imports_without_a_traceback_and_a_run_in_order() -> None:
    code = "import signal; from demo import __main__, commands; print(signal.getsignal(2).name)"
    later = "commands.catch_interrupts(); print(signal.getsignal(2).__name__)"

    assert run_python("-c", f"{code}; {later}", cwd=ROOT).stdout.split() == ["SIG_DFL", "default_int_handler"]
