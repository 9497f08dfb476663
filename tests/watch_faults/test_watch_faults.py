"""API server and watches fail in any way: each demand is served once, and nothing is lost.

And nobody lists in a storm. On the real control plane only: `tests/exporter/test_exporter_watch.py`
scripts the same answers.
"""

from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from standins.controlplane.commands import CONTROLLERS, JOBSET
from tests.lives.cloud import wait_for
from tests.watch_faults.watchfaults_calls import counted_by_server, of_exporter, read_audit
from tests.watch_faults.watchfaults_loop import JOBSETS, Loop, jobset

Json = dict[str, Any]

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]

LISTINGS_MAX = 2
"""Full listings of one kind by the exporter for one outage: one that finds the server, one for a
410 after it."""
REQUESTS_MAX = 12
"""Lists of one kind that reach the server for one outage, those counted that it refuses while it
starts."""
BURST_PODS, BURST_JOBSETS, BURST_SLICES = 2_000, 20, 10
SWEEPING = "ticker"
"""The process that calls the sweep, which would serve a demand that the exporter has missed."""
FILLER_COUNT = 1_000
"""Writes between a backup and its restoration: what comes after must not have overtaken the
exporter's version."""
FILLER = {"metadata": {"generateName": "filler-"}, "data": {"a": "b"}}


def served(loop: Loop, jobsets: dict[str, int]) -> None:
    """See that each JobSet, with so many slices, was reported, completed and reported again."""
    for name in jobsets:
        wait_for(f"the end of {name}", partial(loop.ends_as, "Completed", name))
        wait_for(f"word of {name}", partial(loop.has_published, "completed", name))
        # Where the sweep may serve a slice, it may do so before the exporter has told of it.
        wait_for(f"word of the leaders of {name}", partial(loop.has_published, "unschedulable", name))


def ended_well(loop: Loop, jobsets: dict[str, int], *, gone: int = 0) -> None:
    """See that each slice, and `gone` more, got one pool by one create, and nothing is left."""
    served(loop, jobsets)
    assert loop.problems(list(jobsets)) == []
    created = loop.created()
    assert len(created) == sum(jobsets.values()) + gone, created
    assert len(set(created)) == len(created)


def listed_little(loop: Loop, *, at_most: int = LISTINGS_MAX, requests: int = REQUESTS_MAX) -> None:
    """See that the exporter listed no more than needed, by its log and the server's audit log."""
    assert max(loop.listings().values()) <= at_most, loop.listings()
    asked = read_audit(loop.audit_log())
    for resource, listings in loop.listings().items():
        lists = of_exporter(asked, "list", resource)
        assert listings <= len(lists) <= requests, (resource, lists)


def grown(before: Mapping[str, float], now: Mapping[str, float]) -> bool:
    """Tell whether a count has grown for every watch."""
    return all(now[name] > count for name, count in before.items())


def test_jobset_that_is_installed_later_is_noticed_without_a_restart(loop: Loop) -> None:
    before = loop.before_jobset
    assert before["ready"] == 503
    assert "is the JobSet operator installed?" in before["missing"]["jobsets"]
    assert (before["absent"], before["pods_listed"], before["healthy"]) == (1, 1, True)
    looks = of_exporter(read_audit(before["audit"]), "list", "jobsets")
    assert len(looks) >= 2
    assert all(later.at - earlier.at > 4.5 for earlier, later in pairwise(looks))

    loop.begin("late", exporter_ready=False)
    loop.submit("train", slices=2)

    ended_well(loop, {"train": 2})
    assert loop.exporter_metric("resource_absent", resource="jobsets") == 0
    assert loop.pid("exporter") == before["pid"]


def test_an_exporter_that_was_paused_past_the_history_meets_410_and_misses_nothing(loop: Loop) -> None:
    loop.begin("history")
    loop.submit("long", run_seconds=120)
    wait_for("word of the first", lambda: loop.has_published("unschedulable", "long"))
    before, listed = loop.restarts("expired"), loop.listings()
    with loop.paused(SWEEPING):
        with loop.paused("exporter"):
            loop.cut_off()  # else what follows would wait for it in the connection
            loop.submit("missed", slices=2)
            wait_for("pods that wait", lambda: len(loop.pods("missed")) == 2)
            loop.lose_history()
        wait_for("a listing of each kind", lambda: grown(listed, loop.listings()))
        assert grown(before, loop.restarts("expired")), loop.interruptions()
        served(loop, {"long": 1, "missed": 2})

    ended_well(loop, {"long": 1, "missed": 2})
    listed_little(loop)


def test_a_dead_api_server_that_comes_back_is_met_again_with_nothing_lost(loop: Loop) -> None:
    loop.begin("outage")
    loop.submit("long", run_seconds=600)
    wait_for("a running slice", lambda: loop.runs("long"))
    with loop.paused(SWEEPING):
        loop.submit("cut", slices=2)
        loop.cut_off()
        loop.submit("after")
        served(loop, {"long": 1, "cut": 2, "after": 1})

    ended_well(loop, {"long": 1, "cut": 2, "after": 1})
    listed_little(loop)


def test_data_that_was_set_back_is_noticed_by_who_was_away_meanwhile(loop: Loop) -> None:
    plane = loop.plane
    loop.begin("rewind")
    loop.submit("kept", run_seconds=36_000)
    wait_for("a running slice", lambda: loop.runs("kept"))
    saved = plane.save_data()
    loop.submit("lost", run_seconds=36_000)
    wait_for("another running slice", lambda: loop.runs("lost"))
    loop.create_many([("/api/v1/namespaces/rewind/configmaps", FILLER)] * FILLER_COUNT)
    before = loop.restarts("rewound")
    with loop.paused(SWEEPING):
        with loop.paused("exporter"):
            plane.restore_data(saved)
        wait_for("that it is noticed", lambda: grown(before, loop.restarts("rewound")))
        loop.submit("after", slices=2)
        wait_for("word of the lost one", lambda: loop.has_published("deleted", "lost"))
        served(loop, {"after": 2})
        assert loop.runs("kept")

    loop.delete_jobset("kept")
    ended_well(loop, {"after": 2}, gone=2)
    listed_little(loop, at_most=2 * LISTINGS_MAX, requests=2 * REQUESTS_MAX)  # saving was an outage too


def test_without_jobsets_webhooks_what_is_refused_comes_later_and_what_is_over_is_given_back(loop: Loop) -> None:
    plane = loop.plane
    loop.begin("webhooks")
    loop.submit("leaving", run_seconds=36_000)
    wait_for("a running slice", lambda: loop.runs("leaving"))
    plane.pause(CONTROLLERS)
    loop.submit("half", slices=2)
    jobs = "/apis/batch/v1/namespaces/webhooks/jobs"
    wait_for("its Jobs", lambda: len(loop.kubernetes.get(jobs).json()["items"]) == 3)
    plane.kill(JOBSET)
    plane.resume(CONTROLLERS)

    refused = loop.kubernetes.post(JOBSETS.format("webhooks"), json=jobset("refused", slices=1, run_seconds=60))
    assert refused.status_code == 500
    assert 'failed calling webhook "mjobset.kb.io"' in refused.json()["message"]
    wait_for(
        "the refusal of pods", lambda: 'failed calling webhook "mpod.kb.io"' in words_of(loop, "FailedCreate")
    )
    assert loop.pods("half") == []
    loop.delete_jobset("leaving", propagation="Foreground")
    wait_for("the end of its pool", lambda: len(loop.deleted()) == 1)
    wait_for("word of it", lambda: loop.has_published("deleted", "leaving"))  # the sweep may have been first
    assert loop.phase("leaving") != "gone", "its last finalizer cannot be taken off: that is an update"

    plane.start(JOBSET)
    wait_for("the end of what was deleted", lambda: loop.phase("leaving") == "gone")
    ended_well(loop, {"half": 2}, gone=1)
    assert loop.listings() == {"pods": 0, "jobsets": 0}


def words_of(loop: Loop, reason: str) -> str:
    """The messages of all Events with a reason."""
    found = loop.kubernetes.get(f"/api/v1/namespaces/{loop.namespace}/events").json()["items"]
    return "\n".join(each["message"] for each in found if each["reason"] == reason)


def test_a_burst_of_pods_and_leaders_is_served_without_a_listing(loop: Loop) -> None:
    loop.begin("burst")
    counted = counted_by_server(loop.kubernetes, "LIST", "jobsets")
    names = {f"b{number:02}": BURST_SLICES for number in range(BURST_JOBSETS)}
    others = [("/api/v1/namespaces/burst/pods", bystander(number)) for number in range(BURST_PODS)]
    leaders = [
        (JOBSETS.format("burst"), jobset(name, slices=slices, run_seconds=60)) for name, slices in names.items()
    ]
    every = BURST_PODS // BURST_JOBSETS
    for number, leader in enumerate(leaders):
        others.insert(number * (every + 1), leader)
    loop.create_many(others)

    ended_well(loop, names)
    listed_little(loop, at_most=0)
    asked = [each for each in read_audit(loop.audit_log()) if (each.verb, each.resource) == ("list", "jobsets")]
    assert counted_by_server(loop.kubernetes, "LIST", "jobsets") - counted == len(asked)
    loop.clear_pods()


def bystander(number: int) -> Json:
    """A pod that the exporter sees as a leader and that is no demand, because of its gate."""
    labels = {"jobset.sigs.k8s.io/job-key": "bystander", "batch.kubernetes.io/job-completion-index": "0"}
    spec = {"containers": [{"name": "main", "image": "main"}], "schedulingGates": [{"name": "example.com/later"}]}
    return {"metadata": {"name": f"bystander-{number:04}", "labels": labels}, "spec": spec}
