"""Does the ladder survive everything that a watch can do?

Answers are data; the server and urllib3 are real.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from exporter.health import HEARTBEAT_SECONDS_MAX, Health, Metrics, Role
from exporter.observed_objects import ObservedPods, ObservedQueues, ObservedWorkloads
from exporter.publishing import Pauses
from exporter.watch import PAGE_SIZE, Follower
from shared.kinds.jobset import JOBSET
from shared.kinds.table import get_kind
from shared.model.messages import Event, EventType
from standins.kit.processes import wait_until
from tests.exporter.exporter_builders import CLUSTER, COMPLETED, a_jobset, a_leader
from tests.exporter.scripted_kubernetes import (
    CUT,
    END,
    Listing,
    Refusal,
    Request,
    ScriptedKubernetes,
    Stream,
    bookmark,
    event,
)
from tests.rules.test_kueue import a_workload

LEADER_PODS, JOBSETS = (partial(of, CLUSTER, JOBSET) for of in (ObservedPods, ObservedWorkloads))
RAYCLUSTERS, QUEUES = partial(ObservedWorkloads, CLUSTER, get_kind("RayCluster")), partial(ObservedQueues, CLUSTER)
ODD = {"spec": {"replicatedJobs": "none"}}
HALF = json.dumps(event("ADDED", a_leader("half")))[:200]
MARK = bookmark("150")


def over(uid: str, version: str = "101") -> dict[str, Any]:
    """A JobSet that is completed."""
    return a_jobset(uid, version, conditions=(COMPLETED,))


class Following:
    """A follower of one kind at work, and what it has reported so far."""

    def __init__(self, kubernetes: ScriptedKubernetes) -> None:
        self.kubernetes = kubernetes
        self.reported: list[Event] = []

    def start(
        self, build: Callable[[], Any], lists: Sequence[Any], watches: Sequence[Any] = (), silence: float = 30
    ) -> None:
        """Follow the kind, to which the API gives these answers."""
        kind = self.kind = build()
        self.plural = kind.path.rpartition("/")[2]
        self.kubernetes.lists[self.plural].extend(lists)
        self.kubernetes.watches[self.plural].extend(watches)
        self.metrics, self.health = Metrics(), Health((kind.name,))
        self.follower = Follower(
            self.kubernetes.api,
            kind,
            report=lambda event, *_: self.reported.append(event),
            metrics=self.metrics,
            health=self.health,
            silence_seconds=silence,
            pauses=Pauses(first_seconds=0.01, longest_seconds=0.05),
            absent_seconds=0.05,
        )
        self.thread = threading.Thread(target=self.follower.run, daemon=True)
        self.thread.start()

    def wait_for(self, *facts: tuple[str, str]) -> None:
        """Wait until exactly these were reported: what, and the UID of the object that was seen."""
        wait_until(lambda: len(self.reported) >= len(facts))
        demands = [event.type == EventType.DEMAND for event in self.reported]
        seen = [
            ("demand" if demand else event.cause.split()[0], event.cause if demand else event.subject.uid)
            for event, demand in zip(self.reported, demands, strict=True)
        ]
        assert seen == list(facts)

    def metric(self, name: str, **labels: str) -> float:
        labels |= {"resource": self.kind.name}
        return self.metrics.registry.get_sample_value(f"tpu_provisioner_exporter_{name}", labels) or 0.0

    def restarts(self, reason: str) -> float:
        return self.metric("watch_restarts_total", reason=reason)

    @property
    def listings(self) -> list[Request]:
        """The requests for lists, so far."""
        return self.kubernetes.asked(self.plural, watch=False)

    def watched_from(self, count: int) -> list[str]:
        """Wait for so many watches and return the version that each one began from."""
        watches = self.kubernetes.wait_for_requests(self.plural, count, watch=True)
        return [each.query["resourceVersion"] for each in watches]

    def stop(self) -> None:
        self.follower.stop()
        self.thread.join(30)
        assert not self.thread.is_alive(), "the follower did not end"


@pytest.fixture
def following(kubernetes: ScriptedKubernetes) -> Iterator[Following]:
    following = Following(kubernetes)
    yield following
    following.stop()


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
    "gone": Stream((event("DELETED", a_jobset("kept", "103")),)),
    "then-over": Stream((event("ADDED", over("over", "103")),)),
    "odd-then-over": Stream((event("MODIFIED", over("strange") | ODD), event("ADDED", over("over", "103")))),
}
OF_PODS = {
    "pages": "list a-and-a-token; list missed after token; demand a; demand missed",
    "ended": "present 150; list nothing; watch ended; watch quiet from 150; ended 1; rewound 0",
    "cut twice": "list nothing; watch cut-at-once; watch cut-at-once; list a; watch quiet; demand a",
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
    "a deletion": "list kept; watch gone from 90; gone kept",
    "not installed yet": "list absent; list absent; list over; absent 2; Completed listed",
    "unreadable beside others": (
        "list odd-and-over; watch odd-then-over; unreadable 2; Completed listed; Completed over"
    ),
    "a JobSet unreadable, but there": (
        "list kept; watch expired from 90; list kept-odd; watch then-over from 102; unreadable 1; Completed over"
    ),
    "only counted, but there": (
        "list kept; watch expired from 90; list nameless; watch then-over from 102; unreadable 1; Completed over"
    ),
}
"""What the API answers in turn, to which request; restarts, by reason; and what is reported.

Where nothing is said, a watch begins from 100, and a list has no token.
"""


@pytest.mark.parametrize(
    ("kind", "steps"),
    [(LEADER_PODS, each) for each in OF_PODS.values()] + [(JOBSETS, each) for each in OF_JOBSETS.values()],
    ids=[*OF_PODS, *OF_JOBSETS],
)
def test_a_watch_goes_on_from_where_it_was_or_lists_again(
    following: Following, kind: Any, steps: str, caplog: pytest.LogCaptureFixture
) -> None:
    words = [each.split() for each in steps.split("; ")]
    lists, watches = ([each for each in words if each[0] == verb] for verb in ("list", "watch"))
    counts = {each[0]: int(each[1]) for each in words if each[1].isdigit() and len(each) == 2}
    following.kubernetes.present_version = str(counts.pop("present", 1_000_000))
    unreadable = counts.pop("unreadable", 0)

    following.start(kind, [ANSWERS[each[1]] for each in lists], [ANSWERS[each[1]] for each in watches])

    following.wait_for(*((what, uid) for what, uid, *_ in words if what in ("demand", "gone", "Completed")))
    versions = [each[3] if each[2:] else "100" for each in watches] or ["100"]
    assert following.watched_from(len(versions))[: len(versions)] == versions
    tokens = [each[3] if each[2:] else "-" for each in lists]
    assert [each.query.get("continue", "-") for each in following.listings] == tokens
    assert {reason: following.restarts(reason) for reason in counts} == counts
    assert following.metric("objects_unreadable_total") == unreadable
    assert sum("skipped" in each.message for each in caplog.records) == unreadable
    wait_until(lambda: not following.health.readiness()[1]["missing"])


def test_it_lists_then_watches_what_a_selector_shows(
    following: Following, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    following.start(LEADER_PODS, [Listing((a_leader("listed"),), version="100")])
    following.watched_from(1)
    (listing,), (watch,) = following.listings, following.kubernetes.asked("pods", watch=True)

    selectors = {"labelSelector": "jobset.sigs.k8s.io/job-key", "fieldSelector": "spec.nodeName="}
    assert listing.query == selectors | {"limit": str(PAGE_SIZE)}
    opened = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": "100", "timeoutSeconds": "300"}
    assert watch.query == selectors | opened
    assert [vars(each)["objects"] for each in caplog.records if each.message == "listed"] == [1]


def test_silence_ends_a_watch_and_it_resumes(following: Following) -> None:
    following.start(LEADER_PODS, [Listing()], [Stream((MARK,)), Stream()], silence=1)
    assert following.watched_from(2)[1] == "150"
    assert following.restarts("silence") >= 1


def test_a_watch_that_told_something_is_followed_by_the_next_without_a_pause(following: Following) -> None:
    following.start(LEADER_PODS, [Listing()], [ANSWERS["ended"], Stream()])
    following.watched_from(2)
    assert following.follower._pauses.failures == 0


def test_a_watch_that_ends_at_once_every_time_does_not_spin(following: Following) -> None:
    following.start(LEADER_PODS, [Listing()], [Stream((), END)])
    wait_until(lambda: following.follower._pauses.failures >= 5)


def test_a_long_pause_that_the_server_advised_is_no_sign_of_death_and_ends_with_the_process(
    following: Following, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("exporter.watch.WAIT_SECONDS", 0.02)
    following.start(LEADER_PODS, [Refusal(503, "ServiceUnavailable", retry_after="600")])
    wait_until(lambda: following.health.readiness()[1]["missing"])
    monkeypatch.setattr(following.health, "_clock", lambda: time.monotonic() + HEARTBEAT_SECONDS_MAX + 1)

    wait_until(lambda: following.health.liveness()[0])

    following.stop()
    assert len(following.listings) == 1
    assert [vars(each)["pause_seconds"] for each in caplog.records] == [600]


@pytest.mark.parametrize(
    ("observed", "answer", "ready", "missing"),
    [
        (QUEUES, "absent", True, "is the Kueue operator installed?"),
        (QUEUES, "forbidden", True, "apply the chart infra/helm with kueue=true"),
        (RAYCLUSTERS, "absent", True, "is the RayCluster operator installed?"),
        (JOBSETS, "absent", False, "is the JobSet operator installed?"),
        (JOBSETS, "forbidden", False, "apply the chart infra/helm ("),
    ],
)
def test_only_without_what_every_cluster_needs_it_is_not_ready_and_an_operator_reads_what_to_mend(
    following: Following, observed: Any, answer: str, ready: bool, missing: str, caplog: pytest.LogCaptureFixture
) -> None:
    following.start(observed, [ANSWERS[answer]])
    following.health.role = Role.LEADER

    wait_until(lambda: following.restarts("absent") + following.restarts("denied") >= 2)

    assert following.health.readiness()[0] == ready
    assert missing in str(following.health.readiness()[1])
    warned = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert bool(warned) == (not ready or answer == "forbidden")


def test_kueue_is_followed_once_it_is_there(following: Following) -> None:
    following.start(QUEUES, [ANSWERS["absent"], Listing((a_workload(),))])
    following.wait_for(("demand", "quota since 2026-11-23T11:00:00Z"))
