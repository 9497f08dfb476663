"""Does the ladder survive everything that a watch can do?

Answers are data; the server and urllib3 are real.
"""

import json
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from exporter.health import HEARTBEAT_SECONDS_MAX, Role
from exporter.observed_objects import ObservedPods, ObservedQueues, ObservedWorkloads
from exporter.watch import PAGE_SIZE
from shared.kinds.jobset import JOBSET
from standins.kit.processes import wait_until
from tests.exporter.exporter_builders import CLUSTER, a_jobset, a_leader, completed
from tests.exporter.scripted_kubernetes import (
    CUT,
    END,
    Listing,
    Refusal,
    ScriptedKubernetes,
    Stream,
    bookmark,
    event,
)
from tests.rules.test_kueue import a_workload

Follow = Callable[..., Any]
LEADER_PODS, JOBSETS = (partial(of, CLUSTER, JOBSET) for of in (ObservedPods, ObservedWorkloads))
ODD = {"spec": {"replicatedJobs": "none"}}
HALF = json.dumps(event("ADDED", a_leader("half")))[:200]
MARK = bookmark("150")


def over(uid: str, version: str = "101") -> dict[str, Any]:
    """A JobSet that is completed."""
    return a_jobset(uid, version, conditions=(completed(),))


ANSWERS: dict[str, Any] = {
    "nothing": Listing(),
    "a": Listing((a_leader("a"),)),
    "a-and-a-token": Listing((a_leader("a"),), next_page="token"),
    "missed": Listing((a_leader("missed"),), "500"),
    "nothing-x1": Listing(version="x1"),
    "a-x2": Listing((a_leader("a"),), "x2"),
    "a-odd": Listing((a_leader("a") | {"status": {"phase": 7}},), "102"),
    "lost": Listing((a_jobset("lost"),)),
    "kept": Listing((a_jobset("kept"),), "90"),
    "kept-odd": Listing((a_jobset("kept") | ODD,), "102"),
    "nameless": Listing((a_jobset("kept") | ODD | {"metadata": {"name": "train", "uid": 7}},), "102"),
    "over": Listing((over("listed"),)),
    "odd-and-over": Listing((over("strange") | ODD, over("listed"))),
    "absent": Refusal(404, "NotFound"),
    "expired": Refusal(410, "Expired"),
    "forbidden": Refusal(403, "Forbidden"),
    "slow-down": Refusal(429, "TooManyRequests", retry_after="1"),
    "quiet": Stream(),
    "ended": Stream((MARK,), END),
    "cut": Stream((MARK,), CUT),
    "cut-in-an-event": Stream((MARK, HALF), CUT),
    "ended-in-an-event": Stream((MARK, HALF), END),
    "cut-at-once": Stream((), CUT),
    "expired-inside": Stream((event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"}),)),
    "add": Stream((event("ADDED", a_leader("half", "151")),)),
    "a-again-and-b": Stream((event("MODIFIED", a_leader("a", "103")), event("ADDED", a_leader("b", "104")))),
    "then-over": Stream((event("ADDED", over("over", "103")),)),
    "odd-then-over": Stream((event("MODIFIED", over("strange") | ODD), event("ADDED", over("over", "103")))),
}
OF_PODS = {
    "pages": "list a-and-a-token; list missed after token; demand a; demand missed",
    "ended": "list nothing; watch ended; watch quiet from 150; ended 1",
    "cut between events": "list nothing; watch cut; watch add from 150; disconnected 1; demand half",
    "cut in an event": "list nothing; watch cut-in-an-event; watch add from 150; disconnected 1; demand half",
    "ended in an event": "list nothing; watch ended-in-an-event; watch add from 150; disconnected 1; demand half",
    "410 as status": "list nothing; watch expired; list missed; watch quiet from 500; expired 1; demand missed",
    "410 in it": "list nothing; watch expired-inside; list missed; watch quiet from 500; expired 1; demand missed",
    "no number": "list nothing-x1; watch cut-at-once from x1; list a-x2; watch quiet from x2; demand a",
    "a token that expires": "list a-and-a-token; list expired after token; list a; demand a",
    "no permission": "list forbidden; list a; denied 1; demand a",
    "throttled": "list nothing; watch slow-down; watch slow-down; watch quiet; throttled 2",
    "unreadable, but there": (
        "list a; watch expired; list a-odd; watch a-again-and-b from 102; unreadable 1; demand a; demand b"
    ),
}
OF_JOBSETS = {
    "set back, ended": "present 149; list lost; watch ended; list kept; watch quiet from 90; rewound 1; gone lost",
    "set back, cut": "present 149; list lost; watch cut; list kept; watch quiet from 90; rewound 1; gone lost",
    "not installed yet": "list absent; list absent; list over; absent 2; Completed listed",
    "unreadable beside others": (
        "list odd-and-over; watch odd-then-over; unreadable 2; Completed listed; Completed over"
    ),
    "unreadable, but there": (
        "list kept; watch expired from 90; list kept-odd; watch then-over from 102; unreadable 1; Completed over"
    ),
    "only counted, but there": (
        "list kept; watch expired from 90; list nameless; watch then-over from 102; unreadable 1; Completed over"
    ),
}
"""What the API answers in turn, to which request; restarts, by reason; and what is reported."""


@pytest.mark.parametrize(
    ("kind", "steps"),
    [(LEADER_PODS, each) for each in OF_PODS.values()] + [(JOBSETS, each) for each in OF_JOBSETS.values()],
    ids=[*OF_PODS, *OF_JOBSETS],
)
def test_a_watch_goes_on_from_where_it_was_or_lists_again(
    kubernetes: ScriptedKubernetes, follow: Follow, kind: Any, steps: str, caplog: pytest.LogCaptureFixture
) -> None:
    words = [each.split() for each in steps.split("; ")]
    lists, watches = ([each for each in words if each[0] == verb] for verb in ("list", "watch"))
    counts = {each[0]: int(each[1]) for each in words if each[1].isdigit() and len(each) == 2}
    kubernetes.present_version = str(counts.pop("present", 1_000_000))
    unreadable = counts.pop("unreadable", 0)

    following = follow(
        kind, lists=[ANSWERS[each[1]] for each in lists], watches=[ANSWERS[each[1]] for each in watches]
    )

    following.wait_for(*((what, uid) for what, uid, *_ in words if what in ("demand", "gone", "Completed")))
    versions = [each[3] if each[2:] else "100" for each in watches] or ["100"]
    assert following.watched_from(len(versions))[: len(versions)] == versions
    tokens = [each[3] if each[2:] else "-" for each in lists]
    assert [each.query.get("continue", "-") for each in following.listings] == tokens
    assert {reason: following.restarts(reason) for reason in counts} == counts
    assert following.metric("objects_unreadable_total") == unreadable
    assert sum("object skipped" in each.message for each in caplog.records) == unreadable
    wait_until(lambda: not following.health.readiness()[1]["missing"])


def test_it_lists_then_watches_what_a_selector_shows(kubernetes: ScriptedKubernetes, follow: Follow) -> None:
    following = follow(LEADER_PODS, lists=[Listing((a_leader("listed"),), version="100")])
    following.watched_from(1)
    (listing,), (watch,) = following.listings, kubernetes.asked("pods", watch=True)

    selectors = {"labelSelector": "jobset.sigs.k8s.io/job-key", "fieldSelector": "spec.nodeName="}
    assert listing.query == selectors | {"limit": str(PAGE_SIZE)}
    opened = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": "100", "timeoutSeconds": "300"}
    assert watch.query == selectors | opened


def test_silence_ends_a_watch_and_it_resumes(follow: Follow) -> None:
    following = follow(LEADER_PODS, silence_seconds=1, lists=[Listing()], watches=[Stream((MARK,)), Stream()])
    assert following.watched_from(2)[1] == "150"
    assert following.restarts("silence") >= 1


def test_a_watch_that_ends_at_once_every_time_does_not_spin(follow: Follow) -> None:
    following = follow(LEADER_PODS, lists=[Listing()], watches=[Stream((), END)])
    wait_until(lambda: following.follower._pauses.failures >= 5)


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


@pytest.mark.parametrize(
    ("answer", "missing"),
    [("absent", "is the Kueue operator installed?"), ("forbidden", "apply the chart infra/helm with kueue=true")],
)
def test_without_kueue_or_the_role_the_exporter_is_ready_and_goes_on_when_it_comes(
    kubernetes: ScriptedKubernetes, follow: Follow, answer: str, missing: str, caplog: pytest.LogCaptureFixture
) -> None:
    following = follow(partial(ObservedQueues, CLUSTER), lists=[ANSWERS[answer]])
    following.health.role = Role.LEADER

    wait_until(lambda: following.health.readiness()[0])

    assert missing in str(following.health.readiness()[1])
    kubernetes.lists["workloads"].append(Listing((a_workload(),)))
    following.wait_for(("demand", "quota since 2026-11-23T11:00:00Z"))
    warned = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert bool(warned) == (answer == "forbidden"), "only what an operator has to mend is a warning"
