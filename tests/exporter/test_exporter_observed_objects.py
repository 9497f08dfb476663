"""Is each fact reported once, and none that is not one?"""

import dataclasses
import json
from typing import Any

import pytest

from exporter.observed_objects import ObservedPods, ObservedWorkloads
from shared.kinds.jobset import JOBSET
from shared.kinds.table import get_kind
from shared.model.messages import Event, EventType, format_message
from shared.model.names import ObjectName
from shared.model.workloads import WorkloadView
from tests.exporter.exporter_builders import (
    CLUSTER,
    SINCE,
    a_leader,
    completed,
    read_jobset,
    read_leader,
    resumed,
    suspended,
)

LATER = "2026-11-20T11:00:00Z"


def causes(events: Any) -> list[str]:
    return [event.cause for event in events]


def test_a_demand_names_the_jobset_and_tells_the_pod_apart() -> None:
    (event,) = ObservedPods(CLUSTER, JOBSET).see(read_leader("u1"))
    assert event == Event(
        type=EventType.DEMAND,
        cluster=CLUSTER,
        subject=ObjectName(kind="JobSet", namespace="team-a", name="train", uid="jobset-1"),
        cause="u1",
    )


def test_a_demand_of_a_bare_pod_names_the_pod() -> None:
    (event,) = ObservedPods(CLUSTER, get_kind("Pod")).see(read_leader("u1", labels={}))
    assert event.subject == ObjectName(kind="Pod", namespace="team-a", name="train-slice-0-0-u1", uid="u1")
    assert json.loads(format_message(event).data)["version"] == 1


def test_a_leader_of_an_old_jobset_without_uid_label_is_reported_without_its_uid() -> None:
    labels = {k: v for k, v in a_leader()["metadata"]["labels"].items() if not k.endswith("jobset-uid")}
    (event,) = ObservedPods(CLUSTER, JOBSET).see(read_leader(labels=labels))
    assert event.subject == ObjectName(kind="JobSet", namespace="team-a", name="train", uid="")


def test_a_leader_is_reported_once_however_often_it_changes() -> None:
    observed = ObservedPods(CLUSTER, JOBSET)
    assert not observed.see(read_leader(status={"conditions": []}))
    assert len(list(observed.see(read_leader()))) == 1
    assert not observed.see(read_leader(version="102"))
    assert not observed.see(read_leader(status={"nominatedNodeName": "n"}))
    assert not observed.see(read_leader(version="104"))


def test_a_leader_whose_opt_out_is_withdrawn_is_reported_then() -> None:
    observed = ObservedPods(CLUSTER, JOBSET)
    opt_out = {"tpu-provisioner.cloud.google.com/disable-autoprovisioning": "true"}
    assert not observed.see(read_leader(annotations=opt_out))
    assert observed.see(read_leader())


def test_a_pod_that_leaves_is_forgotten_and_never_reported() -> None:
    observed = ObservedPods(CLUSTER, JOBSET)
    observed.see(read_leader())
    assert not observed.lose(read_leader())
    assert (len(observed), observed.standing) == (0, 0)


def test_a_listing_that_broke_off_forgets_nothing() -> None:
    observed = ObservedPods(CLUSTER, JOBSET)
    observed.see(read_leader("a"))
    observed.see(read_leader("b"))
    observed.begin_listing()
    observed.see(read_leader("a"))
    observed.begin_listing()
    assert not observed.see(read_leader("a"))
    assert not observed.see(read_leader("b"))
    assert not observed.finish_listing()
    assert len(observed) == 2


def test_each_leader_of_a_workload_is_reported() -> None:
    observed = ObservedPods(CLUSTER, JOBSET)
    assert causes(observed.see(read_leader("a"))) == ["a"]
    assert causes(observed.see(read_leader("b"))) == ["b"]
    assert (len(observed), observed.standing) == (2, 2)


OVER = (completed(),)
CASES: dict[str, list[tuple[WorkloadView, list[str]]]] = {
    "one that wants fewer slices is reported, and one that wants more is not": [
        (read_jobset(replicas=2), []),
        (read_jobset(replicas=3), []),
        (read_jobset(replicas=1), ["scaled, generation 1"]),
        (read_jobset(replicas=1), []),
    ],
    "one that is over and wants fewer slices is reported as over only": [
        (read_jobset(replicas=2), []),
        (read_jobset(replicas=1, conditions=OVER), [f"Completed {SINCE}"]),
    ],
    "a completed one is reported once with its time": [
        (read_jobset(), []),
        (read_jobset(conditions=OVER), [f"Completed {SINCE}"]),
        (read_jobset(conditions=OVER), []),
    ],
    "a suspension within the same second is not lost": [
        (read_jobset(conditions=(suspended(),)), [f"Suspended {SINCE}"]),
        (read_jobset(conditions=(resumed(),)), []),
        (read_jobset(conditions=(suspended(),)), [f"Suspended {SINCE}"]),
    ],
}
"""What the watch shows of one workload, in turn, each with what is then reported."""


@pytest.mark.parametrize("steps", CASES.values(), ids=CASES)
def test_a_workload_is_reported_when_that_is_new(steps: list[tuple[WorkloadView, list[str]]]) -> None:
    observed = ObservedWorkloads(CLUSTER, JOBSET)

    assert [causes(observed.see(seen)) for seen, _ in steps] == [reported for _, reported in steps]


def test_a_foreground_deletion_is_reported_when_it_begins_and_when_it_ends() -> None:
    observed = ObservedWorkloads(CLUSTER, JOBSET)
    begun = list(observed.see(read_jobset(deleting=LATER)))
    assert causes(begun) == [f"Deleting {LATER}"]
    assert causes(observed.see(read_jobset(deleting=LATER))) == []
    ended = list(observed.lose(read_jobset(deleting=LATER)))
    assert causes(ended) == ["gone"]
    assert begun[0].id != ended[0].id
    assert len(observed) == 0


def test_a_jobset_deleted_while_nobody_watched_is_reported_at_the_end_of_the_listing() -> None:
    observed = ObservedWorkloads(CLUSTER, JOBSET)
    observed.see(read_jobset("gone"))
    observed.see(read_jobset("stays"))
    observed.begin_listing()
    observed.see(read_jobset("stays"))
    (event,) = observed.finish_listing()
    assert (event.cause, event.subject.uid, event.subject.name) == ("gone", "gone", "train")
    assert not observed.finish_listing()


def test_a_jobset_of_another_manager_is_neither_kept_nor_reported() -> None:
    observed = ObservedWorkloads(CLUSTER, JOBSET)
    elsewhere = read_jobset(managed_by="kueue.x-k8s.io/multikueue", conditions=(completed(),))
    assert causes(observed.see(elsewhere)) == []
    assert causes(observed.lose(elsewhere)) == []
    assert len(observed) == 0


def test_a_workload_that_never_asked_for_accelerators_is_never_spoken_of() -> None:
    observed = ObservedWorkloads(CLUSTER, JOBSET)
    of_cpu = dataclasses.replace(read_jobset(conditions=(completed(),)), groups=())
    observed.begin_listing()
    assert not observed.see(of_cpu)
    assert not observed.finish_listing()
    assert not observed.lose(of_cpu)
    assert len(observed) == 0


def test_a_workload_that_no_longer_asks_for_accelerators_is_spoken_of_to_its_end() -> None:
    observed = ObservedWorkloads(CLUSTER, JOBSET)
    observed.see(read_jobset())
    of_cpu = dataclasses.replace(read_jobset(), groups=())
    assert causes(observed.see(of_cpu)) == ["scaled, generation 1"]
    assert causes(observed.lose(of_cpu)) == ["gone"]


def test_a_pod_that_a_listing_shows_but_that_cannot_be_read_is_not_forgotten() -> None:
    observed = ObservedPods(CLUSTER, JOBSET)
    observed.see(read_leader("a"))
    observed.see(read_leader("b"))
    observed.begin_listing()
    observed.miss("a")
    observed.finish_listing()
    assert len(observed) == 1
    observed.begin_listing()
    observed.miss("")
    observed.finish_listing()
    assert len(observed) == 1
