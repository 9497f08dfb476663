"""Does the ladder survive everything that a watch can do?

Streams are data; the server and urllib3 are real.
"""

import dataclasses
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from exporter.health import HEARTBEAT_SECONDS_MAX
from exporter.observed_objects import watch_pods, watch_workloads
from exporter.watch import PAGE_SIZE
from shared.kinds.jobset import JOBSET
from standins.kit.processes import wait_until
from tests.exporter.exporter_builders import a_jobset, a_leader, completed
from tests.exporter.scripted_kubernetes import (
    CUT,
    END,
    Listing,
    Refusal,
    ScriptedKubernetes,
    Stream,
    bookmark,
    event,
    gone_in_stream,
)

Follow = Callable[..., Any]
LEADER_PODS, JOBSETS = watch_pods(JOBSET), watch_workloads(JOBSET)
QUIET = Stream()
ENDED, BROKEN = (Stream((bookmark("150"),), ending) for ending in (END, CUT))
HALF_AN_EVENT = json.dumps(event("ADDED", a_leader("half")))[:200]
HALF_CUT, HALF_ENDED = (Stream((bookmark("150"), HALF_AN_EVENT), ending) for ending in (CUT, END))
AT_ONCE, GONE = Stream((), CUT), Stream((gone_in_stream(),))
EMPTY = Listing()
ABSENT, EXPIRED, FORBIDDEN = Refusal(404, "NotFound"), Refusal(410, "Expired"), Refusal(403, "Forbidden")


def over(uid: str, version: str = "101") -> dict[str, Any]:
    """A JobSet that is completed."""
    return a_jobset(uid, version, conditions=(completed(),))


def test_it_lists_then_watches_from_the_listed_version(kubernetes: ScriptedKubernetes, follow: Follow) -> None:
    following = follow(
        LEADER_PODS,
        lists=[Listing((a_leader("listed"),), version="100")],
        watches=[Stream((event("ADDED", a_leader("watched", "101")),))],
    )
    following.wait_for(("demand", "listed"), ("demand", "watched"))
    (listing,) = following.listings
    (watch,) = kubernetes.asked("pods", watch=True)
    selectors = {"labelSelector": "jobset.sigs.k8s.io/job-key", "fieldSelector": "spec.nodeName="}
    assert listing.query == selectors | {"limit": str(PAGE_SIZE)}
    assert watch.query == selectors | {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": "100",
        "timeoutSeconds": "300",
    }


HALF_TOLD = Stream((event("ADDED", a_leader("half", "151")),))
A, B, SEEN = ((a_leader(uid),) for uid in ("a", "b", "seen"))
MISSED = Listing((a_leader("missed"),), version="500")
LOST, KEPT = Listing((a_jobset("lost"),)), Listing((a_jobset("kept"),), version="90")
THROTTLED = Refusal(429, "TooManyRequests", retry_after="1")


@dataclasses.dataclass(frozen=True)
class Row:
    """Answers to lists and watches, and what follows from them."""

    lists: list[Any]
    watches: list[Any] = dataclasses.field(default_factory=list)
    reported: str = ""  # what, and the UID of the object
    versions: str = "100"  # those that watches begin from
    restarts: str = ""  # why, and how often
    listed: str = "-"  # the tokens of the requests for lists
    present: str = ""
    """The version that the cluster says it has; that of a cluster whose JobSets are watched."""


ROWS = {
    "pages": Row([Listing(A, next_page="token"), Listing(B)], [], "demand a, demand b", listed="- token"),
    "ended": Row([EMPTY], [ENDED, QUIET], "", "100 150", "ended 1"),
    "cut between events": Row([EMPTY], [BROKEN, HALF_TOLD], "demand half", "100 150", "disconnected 1"),
    "cut in an event": Row([EMPTY], [HALF_CUT, HALF_TOLD], "demand half", "100 150", "disconnected 1"),
    "ended in an event": Row([EMPTY], [HALF_ENDED, HALF_TOLD], "demand half", "100 150", "disconnected 1"),
    "410 as status": Row([EMPTY, MISSED], [EXPIRED, QUIET], "demand missed", "100 500", "expired 1", "- -"),
    "410 in the stream": Row([EMPTY, MISSED], [GONE, QUIET], "demand missed", "100 500", "expired 1", "- -"),
    "set back, ended": Row([LOST, KEPT], [ENDED, QUIET], "gone lost", "100 90", "rewound 1", "- -", "149"),
    "set back, cut": Row([LOST, KEPT], [BROKEN, QUIET], "gone lost", "100 90", "rewound 1", "- -", "149"),
    "a version that is no number": Row(
        [Listing(version="x1"), Listing(SEEN, version="x2")], [AT_ONCE, QUIET], "demand seen", "x1 x2", "", "- -"
    ),
    "a token that expires": Row(
        [Listing(A, next_page="old"), EXPIRED, Listing(A)], [], "demand a", listed="- old -"
    ),
    "no permission": Row([FORBIDDEN, Listing(A)], [], "demand a", restarts="denied 1", listed="- -"),
    "throttled": Row([EMPTY], [THROTTLED, THROTTLED, QUIET], "", "100 100 100", "throttled 2"),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_watch_goes_on_from_where_it_was_or_lists_again(
    kubernetes: ScriptedKubernetes, follow: Follow, row: Row
) -> None:
    kubernetes.present_version = row.present or kubernetes.present_version
    following = follow(JOBSETS if row.present else LEADER_PODS, lists=row.lists, watches=row.watches)

    following.wait_for(*(tuple(each.split()) for each in row.reported.split(", ") if each))
    assert following.watched_from(len(row.versions.split())) == row.versions.split()
    assert [each.query.get("continue", "-") for each in following.listings] == row.listed.split()
    if row.restarts:
        reason, times = row.restarts.split()
        assert following.restarts(reason) == int(times)


def test_silence_ends_a_watch_and_it_resumes(follow: Follow) -> None:
    watches = [Stream((bookmark("150"),)), QUIET]
    following = follow(LEADER_PODS, silence_seconds=1, lists=[EMPTY], watches=watches)
    assert following.watched_from(2)[1] == "150"
    assert following.restarts("silence") >= 1


def test_a_kind_that_the_cluster_does_not_know_is_waited_for(follow: Follow) -> None:
    following = follow(JOBSETS, lists=[ABSENT, ABSENT, Listing((over("jobset-1"),))])
    wait_until(lambda: following.restarts("absent") >= 1)
    following.wait_for(("Completed", "jobset-1"))
    assert following.restarts("absent") == 2
    # What was listed is reported before the watch is open, and only then nothing is missing.
    wait_until(lambda: following.health.readiness()[1]["missing"] == {})


def test_a_long_pause_that_the_server_advised_is_no_sign_of_death_and_ends_with_the_process(
    follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exporter.watch.WAIT_SECONDS", 0.02)
    following = follow(LEADER_PODS, lists=[Refusal(503, "ServiceUnavailable", retry_after="600")])
    wait_until(lambda: following.health.readiness()[1]["missing"])
    monkeypatch.setattr(following.health, "_clock", lambda: time.monotonic() + HEARTBEAT_SECONDS_MAX + 1)

    wait_until(lambda: following.health.liveness()[0])

    following.stop()
    assert len(following.listings) == 1


def test_a_workload_that_cannot_be_read_is_counted_and_holds_up_nobody(
    follow: Follow, caplog: pytest.LogCaptureFixture
) -> None:
    """One at the first listing and in the watch, beside others."""
    strange = over("strange") | {"spec": {"replicatedJobs": "none"}}
    stream = Stream((event("MODIFIED", strange), event("ADDED", over("over", "102"))))
    following = follow(JOBSETS, lists=[Listing((strange, over("listed")))], watches=[stream])
    following.wait_for(("Completed", "listed"), ("Completed", "over"))

    skipped = [vars(each) for each in caplog.records if each.message.startswith("object skipped")]
    assert [each["name_of_object"] for each in skipped] == ["train"] * 2
    assert "spec.replicatedJobs" in skipped[0]["problem"]
    assert following.metric("objects_unreadable_total") == 2


def test_a_watch_that_ends_at_once_every_time_does_not_spin(follow: Follow) -> None:
    following = follow(LEADER_PODS, lists=[EMPTY], watches=[Stream((), END)])
    wait_until(lambda: following.follower._pauses.failures >= 5)


@pytest.mark.parametrize("spoil", ["field", "identity", "pod"])
def test_an_object_that_a_listing_shows_but_that_cannot_be_read_is_neither_gone_nor_new(
    follow: Follow, spoil: str
) -> None:
    """Also if nothing but the number of objects tells that it is there."""
    if spoil == "pod":
        strange = a_leader("stays") | {"status": {"phase": 7}}
        lists = [Listing((a_leader("stays"),)), Listing((strange,), "102")]
        again = (event("MODIFIED", a_leader("stays", "103")), event("ADDED", a_leader("other", "104")))
        following = follow(LEADER_PODS, lists=lists, watches=[EXPIRED, Stream(again)])
        following.wait_for(("demand", "stays"), ("demand", "other"))
        return
    strange = a_jobset("stays") | {"spec": {"replicatedJobs": "none"}}
    if spoil == "identity":
        strange |= {"metadata": {"name": "train", "uid": 7}}
    lists = [Listing((a_jobset("stays"),)), Listing((strange,), "102")]
    watches = [EXPIRED, Stream((event("ADDED", over("over", "103")),))]
    follow(JOBSETS, lists=lists, watches=watches).wait_for(("Completed", "over"))
