"""Does the ladder survive everything that a watch can do?

Streams are data; the server and urllib3 are real.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from exporter.health import HEARTBEAT_SECONDS_MAX, Role
from exporter.watch import PAGE_SIZE
from exporter.watched_kinds import watch_pods, watch_workloads
from shared.core.kinds.jobset import JOBSET
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
HALF_AN_EVENT = json.dumps(event("ADDED", a_leader("half")))[:200]
EMPTY = Listing()


def becomes_true(condition: Callable[[], object]) -> bool:
    until = time.monotonic() + 10
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    return bool(condition())


def test_it_lists_then_watches_from_the_listed_version(kubernetes: ScriptedKubernetes, follow: Follow) -> None:
    kubernetes.lists["pods"].append(Listing((a_leader("listed"),), version="100"))
    kubernetes.watches["pods"].append(Stream((event("ADDED", a_leader("watched", "101")),)))
    following = follow(LEADER_PODS)
    following.wait_for(("unschedulable", "listed"), ("unschedulable", "watched"))
    (listing,) = kubernetes.asked("pods", watch=False)
    (watch,) = kubernetes.asked("pods", watch=True)
    selectors = {
        "labelSelector": "jobset.sigs.k8s.io/job-key,batch.kubernetes.io/job-completion-index=0",
        "fieldSelector": "spec.nodeName=",
    }
    assert listing.query == selectors | {"limit": str(PAGE_SIZE)}
    assert watch.query == selectors | {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": "100",
        "timeoutSeconds": "300",
    }


def test_it_reads_all_pages_and_watches_from_the_first_ones_version(
    kubernetes: ScriptedKubernetes, follow: Follow
) -> None:
    kubernetes.lists["pods"].extend(
        [
            Listing((a_leader("a"),), version="100", next_page="token"),
            Listing((a_leader("b"),), version="100"),
        ]
    )
    follow(LEADER_PODS).wait_for(("unschedulable", "a"), ("unschedulable", "b"))
    kubernetes.wait_for_requests("pods", 1, watch=True)
    assert [request.query.get("continue") for request in kubernetes.asked("pods", watch=False)] == [
        None,
        "token",
    ]


def test_after_a_proper_end_it_resumes_from_the_last_bookmark_without_listing(
    kubernetes: ScriptedKubernetes, follow: Follow
) -> None:
    kubernetes.lists["pods"].append(EMPTY)
    kubernetes.watches["pods"].extend([Stream((bookmark("150"),), END), QUIET])
    following = follow(LEADER_PODS)
    watches = kubernetes.wait_for_requests("pods", 2, watch=True)
    assert [each.query["resourceVersion"] for each in watches] == ["100", "150"]
    assert len(kubernetes.asked("pods", watch=False)) == 1
    assert following.restarts("ended") == 1


@pytest.mark.parametrize(
    "stream",
    [
        Stream((bookmark("150"),), CUT),
        Stream((bookmark("150"), HALF_AN_EVENT), CUT),
        Stream((bookmark("150"), HALF_AN_EVENT), END),
    ],
    ids=["between events", "in the middle of an event", "ended in the middle of an event"],
)
def test_after_a_broken_connection_it_resumes_from_the_last_version(
    kubernetes: ScriptedKubernetes, follow: Follow, stream: Stream
) -> None:
    kubernetes.lists["pods"].append(EMPTY)
    kubernetes.watches["pods"].extend([stream, Stream((event("ADDED", a_leader("half", "151")),))])
    following = follow(LEADER_PODS)
    following.wait_for(("unschedulable", "half"))
    assert [each.query["resourceVersion"] for each in kubernetes.asked("pods", watch=True)] == ["100", "150"]
    assert len(kubernetes.asked("pods", watch=False)) == 1
    assert following.restarts("disconnected") == 1


@pytest.mark.parametrize(
    "expiry",
    [Refusal(410, "Expired"), Stream((gone_in_stream(),))],
    ids=["as HTTP status", "in the stream"],
)
def test_after_410_it_lists_again(kubernetes: ScriptedKubernetes, follow: Follow, expiry: Any) -> None:
    kubernetes.lists["pods"].extend([EMPTY, Listing((a_leader("missed"),), version="500")])
    kubernetes.watches["pods"].extend([expiry, QUIET])
    following = follow(LEADER_PODS)
    following.wait_for(("unschedulable", "missed"))
    watches = kubernetes.wait_for_requests("pods", 2, watch=True)
    assert watches[1].query["resourceVersion"] == "500"
    assert following.restarts("expired") == 1


@pytest.mark.parametrize("stream", [Stream((bookmark("150"),), END), Stream((bookmark("150"),), CUT)])
def test_a_cluster_whose_data_was_set_back_is_listed_again(
    kubernetes: ScriptedKubernetes, follow: Follow, stream: Stream
) -> None:
    kubernetes.lists["jobsets"].extend([Listing((a_jobset("lost"),)), Listing((a_jobset("kept"),), version="90")])
    kubernetes.watches["jobsets"].extend([stream, QUIET])
    kubernetes.present_version = "149"
    following = follow(JOBSETS)
    following.wait_for(("deleted", "lost"))
    watches = kubernetes.wait_for_requests("jobsets", 2, watch=True)
    assert watches[1].query["resourceVersion"] == "90"
    assert following.restarts("rewound") == 1


def test_a_version_that_is_not_a_number_is_never_resumed_from(
    kubernetes: ScriptedKubernetes, follow: Follow
) -> None:
    kubernetes.lists["pods"].extend([Listing(version="x1"), Listing((a_leader("seen"),), version="x2")])
    kubernetes.watches["pods"].extend([Stream((), CUT), QUIET])
    follow(LEADER_PODS).wait_for(("unschedulable", "seen"))


def test_a_continue_token_that_expires_starts_the_listing_over(
    kubernetes: ScriptedKubernetes, follow: Follow
) -> None:
    kubernetes.lists["pods"].extend(
        [Listing((a_leader("a"),), next_page="old"), Refusal(410, "Expired"), Listing((a_leader("a"),))]
    )
    following = follow(LEADER_PODS)
    kubernetes.wait_for_requests("pods", 1, watch=True)
    following.wait_for(("unschedulable", "a"))


def test_silence_ends_a_watch_and_it_resumes(kubernetes: ScriptedKubernetes, follow: Follow) -> None:
    kubernetes.lists["pods"].append(EMPTY)
    kubernetes.watches["pods"].extend([Stream((bookmark("150"),)), QUIET])
    following = follow(LEADER_PODS, silence_seconds=1)
    watches = kubernetes.wait_for_requests("pods", 2, watch=True)
    assert watches[1].query["resourceVersion"] == "150"
    assert following.restarts("silence") >= 1


def test_a_restarted_api_server_is_found_again_and_listed(follow: Follow, kubernetes: ScriptedKubernetes) -> None:
    kubernetes.lists["jobsets"].append(Listing((a_jobset("before"),)))
    kubernetes.watches["jobsets"].append(Stream((bookmark("150"),)))
    following = follow(JOBSETS)
    kubernetes.wait_for_requests("jobsets", 1, watch=True)
    kubernetes.stop()
    reborn = ScriptedKubernetes()
    reborn.lists["jobsets"].append(Listing((a_jobset("after", conditions=(completed(),)),), version="7"))
    wait_until(lambda: following.restarts("disconnected") >= 2)
    reborn.start(kubernetes.port)
    following.wait_for(("completed", "after"), ("deleted", "before"))
    following.stop()
    reborn.stop()


def test_a_bound_or_deleted_pod_is_never_reported(kubernetes: ScriptedKubernetes, follow: Follow) -> None:
    kubernetes.lists["pods"].append(Listing((a_leader("bound"),)))
    kubernetes.watches["pods"].append(
        Stream((event("DELETED", a_leader("bound", "102")), event("ADDED", a_leader("next", "103"))))
    )
    following = follow(LEADER_PODS)
    following.wait_for(("unschedulable", "bound"), ("unschedulable", "next"))
    assert following.sightings.standing == 1


def test_a_jobset_deleted_during_a_gap_is_reported(kubernetes: ScriptedKubernetes, follow: Follow) -> None:
    kubernetes.lists["jobsets"].extend([Listing((a_jobset("gone"),)), Listing(version="200")])
    kubernetes.watches["jobsets"].extend([Refusal(410, "Expired"), QUIET])
    follow(JOBSETS).wait_for(("deleted", "gone"))


def test_a_kind_that_the_cluster_does_not_know_is_waited_for(
    kubernetes: ScriptedKubernetes, follow: Follow
) -> None:
    kubernetes.lists["jobsets"].extend(
        [Refusal(404, "NotFound"), Refusal(404, "NotFound"), Listing((a_jobset(conditions=(completed(),)),))]
    )
    following = follow(JOBSETS)
    wait_until(lambda: following.restarts("absent") >= 1)
    following.wait_for(("completed", "jobset-1"))
    assert following.restarts("absent") == 2
    # What was listed is reported before the watch is open, and only then nothing is missing.
    wait_until(lambda: following.health.readiness()[1]["missing"] == {})


def test_an_absent_kind_is_named_to_whoever_asks(kubernetes: ScriptedKubernetes, follow: Follow) -> None:
    kubernetes.lists["jobsets"].append(Refusal(404, "NotFound"))
    following = follow(JOBSETS)
    # The last thing that a failure changes.
    wait_until(lambda: "is the JobSet operator installed?" in str(following.health.readiness()[1]))
    assert following.restarts("absent") >= 1
    absent = following.metrics.registry.get_sample_value(
        "tpu_provisioner_exporter_resource_absent", {"resource": "jobsets"}
    )
    assert absent == 1


def test_a_missing_permission_is_named_and_waited_out(kubernetes: ScriptedKubernetes, follow: Follow) -> None:
    kubernetes.lists["pods"].extend([Refusal(403, "Forbidden"), Listing((a_leader("a"),))])
    following = follow(LEADER_PODS)
    following.wait_for(("unschedulable", "a"))
    assert following.restarts("denied") == 1


def test_a_throttled_watch_waits_as_advised_and_keeps_its_place(
    kubernetes: ScriptedKubernetes, follow: Follow
) -> None:
    kubernetes.lists["pods"].append(EMPTY)
    kubernetes.watches["pods"].extend([Refusal(429, "TooManyRequests", retry_after="1"), QUIET])
    following = follow(LEADER_PODS)
    kubernetes.wait_for_requests("pods", 2, watch=True)
    assert following.restarts("throttled") == 1
    assert len(kubernetes.asked("pods", watch=False)) == 1


def test_a_long_pause_that_the_server_advised_is_no_sign_of_death_and_ends_with_the_process(
    kubernetes: ScriptedKubernetes, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exporter.watch.WAIT_SECONDS", 0.02)
    kubernetes.lists["pods"].append(Refusal(503, "ServiceUnavailable", retry_after="600"))
    following = follow(LEADER_PODS)
    assert becomes_true(lambda: following.health.readiness()[1]["missing"])
    monkeypatch.setattr(following.health, "_clock", lambda: time.monotonic() + HEARTBEAT_SECONDS_MAX + 1)

    assert becomes_true(lambda: following.health.liveness()[0])

    following.stop()
    assert len(kubernetes.asked("pods", watch=False)) == 1


def test_unknown_event_types_are_passed_over(kubernetes: ScriptedKubernetes, follow: Follow) -> None:
    kubernetes.lists["pods"].append(EMPTY)
    kubernetes.watches["pods"].append(
        Stream((event("INVENTED", a_leader("x", "101")), event("ADDED", a_leader("y", "102"))))
    )
    follow(LEADER_PODS).wait_for(("unschedulable", "y"))


def test_an_object_of_an_unexpected_shape_holds_up_nobody(
    kubernetes: ScriptedKubernetes, follow: Follow, caplog: pytest.LogCaptureFixture
) -> None:
    strange = a_leader("strange", "101", status={"conditions": "none"})
    kubernetes.lists["pods"].append(Listing((strange, a_leader("listed"))))
    kubernetes.watches["pods"].append(
        Stream((event("ADDED", strange), event("ADDED", a_leader("watched", "102"))))
    )
    following = follow(LEADER_PODS)
    following.wait_for(("unschedulable", "listed"), ("unschedulable", "watched"))
    passed_over = [each for each in caplog.records if each.message.startswith("object skipped")]
    assert [each.__dict__["name_of_object"] for each in passed_over] == ["train-slice-0-0-strange"] * 2


def test_a_workload_that_cannot_be_read_is_counted_and_holds_up_nobody(
    kubernetes: ScriptedKubernetes, follow: Follow, caplog: pytest.LogCaptureFixture
) -> None:
    strange = a_jobset("strange", conditions=(completed(),)) | {"spec": {"replicatedJobs": "none"}}
    over = a_jobset("over", "102", conditions=(completed(),))
    kubernetes.lists["jobsets"].append(Listing((strange, a_jobset("listed", conditions=(completed(),)))))
    kubernetes.watches["jobsets"].append(Stream((event("MODIFIED", strange), event("ADDED", over))))
    following = follow(JOBSETS)
    following.wait_for(("completed", "listed"), ("completed", "over"))
    passed_over = [each for each in caplog.records if each.message.startswith("object skipped")]
    assert [each.__dict__["name_of_object"] for each in passed_over] == ["train"] * 2
    assert "spec.replicatedJobs" in passed_over[0].__dict__["problem"]
    name = "tpu_provisioner_exporter_objects_unreadable_total"
    assert following.metrics.registry.get_sample_value(name, {"resource": "jobsets"}) == 2


def test_whatever_one_object_raises_is_counted_and_the_others_are_reported(
    kubernetes: ScriptedKubernetes, follow: Follow, caplog: pytest.LogCaptureFixture
) -> None:
    """At the first listing, when an exporter starts, and in the watch."""
    strange = a_jobset("strange", conditions=(completed(),))
    over = a_jobset("over", "102", conditions=(completed(),))
    kubernetes.lists["jobsets"].append(Listing((strange, a_jobset("listed", conditions=(completed(),)))))
    kubernetes.watches["jobsets"].append(Stream((event("MODIFIED", strange), event("ADDED", over))))

    def read(item: Any) -> Any:
        found = JOBSETS.read(item)
        if found.uid == "strange":
            raise OverflowError("int too large to convert to float")
        return found

    following = follow(dataclasses.replace(JOBSETS, read=read))
    following.wait_for(("completed", "listed"), ("completed", "over"))
    skipped = [each for each in caplog.records if each.message.startswith("object skipped")]
    problems = [each.__dict__["problem"] for each in skipped]
    assert problems == ["OverflowError: int too large to convert to float"] * 2
    name = "tpu_provisioner_exporter_objects_unreadable_total"
    assert following.metrics.registry.get_sample_value(name, {"resource": "jobsets"}) == 2


def test_a_kind_that_need_not_be_there_is_noticed_when_it_comes_and_holds_up_nobody(
    kubernetes: ScriptedKubernetes, follow: Follow, caplog: pytest.LogCaptureFixture
) -> None:
    kubernetes.lists["jobsets"].extend(
        [Refusal(404, "NotFound"), Listing((a_jobset("later", conditions=(completed(),)),))]
    )
    following = follow(dataclasses.replace(JOBSETS, optional=True))
    following.health.role = Role.LEADER
    wait_until(lambda: following.health.readiness()[0])
    following.wait_for(("completed", "later"))
    assert [each for each in caplog.records if each.levelname == "WARNING"] == []


def test_stopping_ends_a_silent_watch_at_once(kubernetes: ScriptedKubernetes, follow: Follow) -> None:
    kubernetes.lists["pods"].append(EMPTY)
    kubernetes.watches["pods"].append(QUIET)
    following = follow(LEADER_PODS, silence_seconds=60)
    kubernetes.wait_for_requests("pods", 1, watch=True)
    following.stop()


def test_a_watch_that_ends_at_once_every_time_does_not_spin(
    kubernetes: ScriptedKubernetes, follow: Follow
) -> None:
    kubernetes.lists["pods"].append(EMPTY)
    kubernetes.watches["pods"].append(Stream((), END))
    following = follow(LEADER_PODS)
    wait_until(lambda: following.follower._pauses.failures >= 5)


def wait_until(is_true: Callable[[], bool], seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < until, "did not become true in time"
        time.sleep(0.01)


@pytest.mark.parametrize("spoil", ["field", "identity"])
def test_an_object_that_a_listing_shows_but_that_cannot_be_read_is_not_reported_as_deleted(
    kubernetes: ScriptedKubernetes, follow: Follow, spoil: str
) -> None:
    """Also if nothing but the number of objects tells that it is there."""
    strange = a_jobset("stays") | {"spec": {"replicatedJobs": "none"}}
    if spoil == "identity":
        strange = strange | {"metadata": {"name": "train", "uid": 7}}
    over = a_jobset("over", "103", conditions=(completed(),))
    kubernetes.lists["jobsets"] += [Listing((a_jobset("stays"),)), Listing((strange,), "102")]
    kubernetes.watches["jobsets"] += [Refusal(410, "Expired"), Stream((event("ADDED", over),))]

    follow(JOBSETS).wait_for(("completed", "over"))
