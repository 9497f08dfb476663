"""Is each fact reported once, and none that is not one?"""

import json
from typing import Any

import pytest
from msgspec import structs

from exporter.observed_objects import ObservedPods, ObservedWorkloads
from shared.kinds.jobset import JOBSET
from shared.kinds.table import get_kind
from shared.model.messages import Event, EventType, format_message
from shared.model.names import ObjectName
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

OPT_OUT = "tpu-provisioner.cloud.google.com/disable-autoprovisioning"
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


PODS = {
    "a": read_leader("a"),
    "b": read_leader("b"),
    "a placed": read_leader("a", status={"nominatedNodeName": "n"}),
    "a unseen": read_leader("a", status={"conditions": []}),
    "a again": read_leader("a", version="102"),
    "a opted out": read_leader("a", annotations={OPT_OUT: "true"}),
}
OF_PODS = {
    "each leader is reported": "see a > a; see b > b; kept 2; standing 2",
    "once however often it changes": "see a unseen; see a > a; see a again; see a placed; see a again",
    "when its opt-out is withdrawn": "see a opted out; see a > a",
    "never when it has left": "see a > a; lose a; kept 0; standing 0",
    "a listing that broke off forgets nothing": (
        "see a > a; see b > b; begin; see a; begin; see a; see b; finish; kept 2"
    ),
    "one that is listed but cannot be read is not forgotten": (
        "see a > a; see b > b; begin; miss a; finish; kept 1; begin; miss ; finish; kept 1"
    ),
}
OVER = (completed(),)
WORKLOADS = {
    **{str(slices): read_jobset(replicas=slices) for slices in (1, 2, 3)},
    "over": read_jobset(conditions=OVER),
    "over with 1": read_jobset(replicas=1, conditions=OVER),
    "suspended": read_jobset(conditions=(suspended(),)),
    "resumed": read_jobset(conditions=(resumed(),)),
    "deleting": read_jobset(deleting=LATER),
    "elsewhere": read_jobset(managed_by="kueue.x-k8s.io/multikueue", conditions=OVER),
    "stays": read_jobset("stays"),
    "of cpu": structs.replace(read_jobset(), groups=()),
    "of cpu, over": structs.replace(read_jobset(conditions=OVER), groups=()),
}
OF_WORKLOADS = {
    "fewer slices, but not more": "see 2; see 3; see 1 > scaled, generation 1; see 1",
    "over only, if also fewer": f"see 2; see over with 1 > Completed {SINCE}",
    "completed, once": f"see 1; see over > Completed {SINCE}; see over",
    "suspended again within a second": (
        f"see suspended > Suspended {SINCE}; see resumed; see suspended > Suspended {SINCE}"
    ),
    "a deletion, when it begins and ends": (
        f"see deleting > Deleting {LATER}; see deleting; lose deleting > gone; kept 0"
    ),
    "deleted while nobody watched": "see 1; see stays; begin; see stays; finish > gone; finish",
    "of another manager, never": "see elsewhere; lose elsewhere; kept 0",
    "without accelerators, never": "begin; see of cpu, over; finish; lose of cpu, over; kept 0",
    "no longer with accelerators, to its end": "see 1; see of cpu > scaled, generation 1; lose of cpu > gone",
}
"""What a watch and a listing show in turn, each with the causes of what is then reported."""


@pytest.mark.parametrize("steps", [*OF_PODS.values(), *OF_WORKLOADS.values()], ids=[*OF_PODS, *OF_WORKLOADS])
def test_what_is_new_is_reported(steps: str) -> None:
    of_pods = steps in OF_PODS.values()
    observed: Any = (ObservedPods if of_pods else ObservedWorkloads)(CLUSTER, JOBSET)
    seen: dict[str, Any] = PODS if of_pods else WORKLOADS
    calls = {"begin": observed.begin_listing, "finish": observed.finish_listing}

    for step in steps.split("; "):
        said, _, wanted = step.partition(" > ")
        verb, _, what = said.partition(" ")
        if verb in ("kept", "standing"):
            assert (len(observed) if verb == "kept" else observed.standing) == int(what), step
            continue
        if verb in calls:
            told = calls[verb]()
        elif verb == "miss":
            told = observed.miss(what)
        else:
            told = getattr(observed, verb)(seen[what])
        assert causes(told or ()) == ([wanted] if wanted else []), step


def test_the_begin_and_the_end_of_a_deletion_are_two_events_of_one_workload() -> None:
    observed = ObservedWorkloads(CLUSTER, JOBSET)
    (begun,), (ended,) = observed.see(WORKLOADS["deleting"]), observed.lose(WORKLOADS["deleting"])
    assert begun.id != ended.id
    assert (ended.subject.uid, ended.subject.name) == ("jobset-1", "train")


def test_what_a_listing_lacks_is_told_by_its_own_name() -> None:
    observed = ObservedWorkloads(CLUSTER, JOBSET)
    observed.see(read_jobset("gone"))
    observed.begin_listing()
    (event,) = observed.finish_listing()
    assert (event.cause, event.subject.uid, event.subject.name) == ("gone", "gone", "train")
