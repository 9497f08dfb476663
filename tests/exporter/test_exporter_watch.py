"""Does the ladder survive everything that a watch can do?

Streams are data; the server and urllib3 are real.
"""

import dataclasses
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from exporter.health import HEARTBEAT_SECONDS_MAX, Role
from exporter.observed_objects import watch_pods, watch_workloads
from exporter.watch import PAGE_SIZE
from shared.kinds.jobset import JOBSET
from standins.processes.stand_ins import wait_until
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
EMPTY = Listing()
ABSENT, EXPIRED = Refusal(404, "NotFound"), Refusal(410, "Expired")


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


def test_it_reads_all_pages_and_watches_from_the_first_ones_version(follow: Follow) -> None:
    pages = [Listing((a_leader("a"),), next_page="token"), Listing((a_leader("b"),))]
    following = follow(LEADER_PODS, lists=pages)
    following.wait_for(("demand", "a"), ("demand", "b"))
    following.watched_from(1)
    assert [request.query.get("continue") for request in following.listings] == [None, "token"]


def test_after_a_proper_end_it_resumes_from_the_last_bookmark_without_listing(follow: Follow) -> None:
    following = follow(LEADER_PODS, lists=[EMPTY], watches=[ENDED, QUIET])
    assert following.watched_from(2) == ["100", "150"]
    assert len(following.listings) == 1
    assert following.restarts("ended") == 1


@pytest.mark.parametrize(
    "stream",
    [BROKEN, Stream((bookmark("150"), HALF_AN_EVENT), CUT), Stream((bookmark("150"), HALF_AN_EVENT), END)],
    ids=["between events", "in the middle of an event", "ended in the middle of an event"],
)
def test_after_a_broken_connection_it_resumes_from_the_last_version(follow: Follow, stream: Stream) -> None:
    resumed = Stream((event("ADDED", a_leader("half", "151")),))
    following = follow(LEADER_PODS, lists=[EMPTY], watches=[stream, resumed])
    following.wait_for(("demand", "half"))
    assert following.watched_from(2) == ["100", "150"]
    assert len(following.listings) == 1
    assert following.restarts("disconnected") == 1


@pytest.mark.parametrize("expiry", [EXPIRED, Stream((gone_in_stream(),))], ids=["as HTTP status", "in the stream"])
def test_after_410_it_lists_again(follow: Follow, expiry: Any) -> None:
    lists = [EMPTY, Listing((a_leader("missed"),), version="500")]
    following = follow(LEADER_PODS, lists=lists, watches=[expiry, QUIET])
    following.wait_for(("demand", "missed"))
    assert following.watched_from(2)[1] == "500"
    assert following.restarts("expired") == 1


@pytest.mark.parametrize("stream", [ENDED, BROKEN])
def test_a_cluster_whose_data_was_set_back_is_listed_again(
    kubernetes: ScriptedKubernetes, follow: Follow, stream: Stream
) -> None:
    kubernetes.present_version = "149"
    lists = [Listing((a_jobset("lost"),)), Listing((a_jobset("kept"),), version="90")]
    following = follow(JOBSETS, lists=lists, watches=[stream, QUIET])
    following.wait_for(("gone", "lost"))
    assert following.watched_from(2)[1] == "90"
    assert following.restarts("rewound") == 1


def test_a_version_that_is_not_a_number_is_never_resumed_from(follow: Follow) -> None:
    lists = [Listing(version="x1"), Listing((a_leader("seen"),), version="x2")]
    follow(LEADER_PODS, lists=lists, watches=[Stream((), CUT), QUIET]).wait_for(("demand", "seen"))


def test_a_continue_token_that_expires_starts_the_listing_over(follow: Follow) -> None:
    found = (a_leader("a"),)
    following = follow(LEADER_PODS, lists=[Listing(found, next_page="old"), EXPIRED, Listing(found)])
    following.watched_from(1)
    following.wait_for(("demand", "a"))


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


def test_a_missing_permission_is_named_and_waited_out(follow: Follow) -> None:
    following = follow(LEADER_PODS, lists=[Refusal(403, "Forbidden"), Listing((a_leader("a"),))])
    following.wait_for(("demand", "a"))
    assert following.restarts("denied") == 1


def test_a_throttled_watch_waits_as_advised_and_keeps_its_place(follow: Follow) -> None:
    throttled = Refusal(429, "TooManyRequests", retry_after="1")
    following = follow(LEADER_PODS, lists=[EMPTY], watches=[throttled, throttled, QUIET])
    following.watched_from(3)
    assert following.restarts("throttled") == 2
    assert len(following.listings) == 1


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


def list_skipped(caplog: pytest.LogCaptureFixture, fact: str) -> list[str]:
    """Return a fact of each record about an object that was skipped."""
    return [each.__dict__[fact] for each in caplog.records if each.message.startswith("object skipped")]


def follow_one_that_is_strange(follow: Follow, kind: Any, strange: dict[str, Any]) -> Any:
    """Show one object that cannot be read at the first listing and in the watch, and others."""
    stream = Stream((event("MODIFIED", strange), event("ADDED", over("over", "102"))))
    following = follow(kind, lists=[Listing((strange, over("listed")))], watches=[stream])
    following.wait_for(("Completed", "listed"), ("Completed", "over"))
    return following


def test_a_workload_that_cannot_be_read_is_counted_and_holds_up_nobody(
    follow: Follow, caplog: pytest.LogCaptureFixture
) -> None:
    strange = over("strange") | {"spec": {"replicatedJobs": "none"}}
    following = follow_one_that_is_strange(follow, JOBSETS, strange)
    assert list_skipped(caplog, "name_of_object") == ["train"] * 2
    assert "spec.replicatedJobs" in list_skipped(caplog, "problem")[0]
    assert following.metric("objects_unreadable_total") == 2


def test_a_kind_that_need_not_be_there_is_noticed_when_it_comes_and_holds_up_nobody(
    follow: Follow, caplog: pytest.LogCaptureFixture
) -> None:
    following = follow(dataclasses.replace(JOBSETS, optional=True), lists=[ABSENT, Listing((over("later"),))])
    following.health.role = Role.LEADER
    wait_until(lambda: following.health.readiness()[0])
    following.wait_for(("Completed", "later"))
    assert [each for each in caplog.records if each.levelname == "WARNING"] == []


def test_a_watch_that_ends_at_once_every_time_does_not_spin(follow: Follow) -> None:
    following = follow(LEADER_PODS, lists=[EMPTY], watches=[Stream((), END)])
    wait_until(lambda: following.follower._pauses.failures >= 5)


@pytest.mark.parametrize("spoil", ["field", "identity"])
def test_an_object_that_a_listing_shows_but_that_cannot_be_read_is_not_reported_as_deleted(
    follow: Follow, spoil: str
) -> None:
    """Also if nothing but the number of objects tells that it is there."""
    strange = a_jobset("stays") | {"spec": {"replicatedJobs": "none"}}
    if spoil == "identity":
        strange = strange | {"metadata": {"name": "train", "uid": 7}}
    lists = [Listing((a_jobset("stays"),)), Listing((strange,), "102")]
    watches = [EXPIRED, Stream((event("ADDED", over("over", "103")),))]

    follow(JOBSETS, lists=lists, watches=watches).wait_for(("Completed", "over"))
