"""Is each fact reported once, and none that is not one?"""

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec import structs

from exporter.observed_objects import ObservedPods, ObservedQueues, ObservedWorkloads, find_over
from shared.edges.kueue import read_queued
from shared.kinds.jobset import JOBSET
from shared.kinds.table import get_kind
from shared.model.messages import Event, EventType, format_message, parse_message
from tests.exporter import exporter_builders as builders
from tests.exporter.exporter_builders import CLUSTER, SINCE, completed, read_jobset, read_leader, suspended
from tests.rules.test_kueue import CHECKS, OWNER, a_workload

OPT_OUT = "tpu-provisioner.cloud.google.com/disable-autoprovisioning"
LATER = "2026-11-20T11:00:00Z"
RESUMED = ("Suspended", "False", SINCE)
LABELS = builders.LABELS


def leave_out(key: str) -> dict[str, str]:
    return {name: value for name, value in LABELS.items() if not name.endswith(key)}


def check(events: Iterable[Event], *causes: str) -> None:
    """Check what was reported, each event as its reader gets it."""
    events = list(events)
    assert [event.cause for event in events] == list(causes)
    for message in map(format_message, events):
        assert parse_message(message.data, message.attributes) in events


SUBJECTS = {
    "a JobSet": ("JobSet", LABELS, ("JobSet", "team-a", "train", "jobset-1")),
    "an old JobSet without a label of its UID": (
        "JobSet",
        leave_out("jobset-uid"),
        ("JobSet", "team-a", "train", ""),
    ),
    "a bare pod": ("Pod", {}, ("Pod", "team-a", "train-slice-0-0-u1", "u1")),
}


@pytest.mark.parametrize(("kind", "labels", "subject"), SUBJECTS.values(), ids=SUBJECTS)
def test_a_demand_names_the_workload_and_tells_the_pod_apart(
    kind: str, labels: dict[str, str], subject: tuple[str, ...]
) -> None:
    (event,) = ObservedPods(CLUSTER, get_kind(kind)).see(read_leader("u1", labels=labels))

    assert structs.astuple(event.subject) == subject
    assert (event.type, event.cluster, event.cause) == (EventType.DEMAND, CLUSTER, "u1")


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
    "resumed": read_jobset(conditions=(RESUMED,)),
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
    items: dict[str, Any] = PODS if of_pods else WORKLOADS
    calls = {"begin": observed.begin_listing, "finish": observed.finish_listing}

    for step in steps.split("; "):
        said, _, wanted = step.partition(" > ")
        verb, _, what = said.partition(" ")
        if verb in ("kept", "standing"):
            assert (len(observed) if verb == "kept" else observed.standing) == int(what), step
        elif verb == "miss":
            observed.miss(what)
        else:
            events = calls[verb]() if verb in calls else getattr(observed, verb)(items[what])
            check(events or (), *filter(None, [wanted]))


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


def container(**resources: Any) -> dict[str, Any]:
    return {"name": "main", "resources": resources}


def on_status(**condition: str) -> dict[str, Any]:
    return {"status": {"conditions": [builders.UNSCHEDULABLE | condition]}}


NO_TPU: dict[str, Any] = {"nodeSelector": None, "containers": [container()]}
OTHER = {"type": "PodReadyToStartContainers", "status": "False"}
TPU_SELECTOR = {"nodeSelector": {"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice"}}
DEMANDS: dict[str, dict[str, Any]] = {
    "a leader on TPU selectors": {},
    "one that asks for no chips (Pathways head)": {"spec": {"containers": [container()]}},
    "one that has only the accelerator selector": {"spec": NO_TPU | TPU_SELECTOR},
    "one whose index is only an annotation (before Kubernetes 1.28)": {
        "labels": leave_out("completion-index"),
        "annotations": {"batch.kubernetes.io/job-completion-index": "0"},
    },
    "one that says false to the opt-out": {"annotations": {OPT_OUT: "false"}},
    "one with other conditions beside": {"status": {"conditions": [OTHER, builders.UNSCHEDULABLE]}},
}
NO_DEMANDS: dict[str, dict[str, Any]] = {
    "a running pod": {"status": {"phase": "Running"}},
    "a pod being deleted": {"metadata": {"deletionTimestamp": SINCE}},
    "a bound pod": {"spec": {"nodeName": "n1"}},
    "a gated pod": {"spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}},
    "a pod with a gate's reason": on_status(reason="SchedulingGated"),
    "a scheduler error": on_status(reason="SchedulerError"),
    "a pod the scheduler has not looked at, with a spec that nobody reads": {
        "status": {"conditions": None},
        "spec": {"containers": "none"},
    },
    "a scheduled pod": on_status(status="True"),
    "a pod that preempts others": {"status": {"nominatedNodeName": "n1"}},
    "a follower": {"labels": LABELS | {"batch.kubernetes.io/job-completion-index": "1"}},
    "a pod of no JobSet": {"labels": {"batch.kubernetes.io/job-completion-index": "0"}},
    "a pod opted out by label": {"labels": LABELS | {OPT_OUT: "true"}},
    "a pod opted out by annotation": {"annotations": {OPT_OUT: "true"}},
    "a CPU pod": {"spec": NO_TPU},
    "a pod that asks for zero chips": {
        "spec": NO_TPU | {"containers": [container(limits={"google.com/tpu": "0"})]}
    },
    "a GPU pod": {"spec": NO_TPU | {"nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-l4"}}},
}


@pytest.mark.parametrize("name", [*DEMANDS, *NO_DEMANDS])
def test_a_pod_is_a_demand_or_none(name: str) -> None:
    pod = read_leader(**(DEMANDS | NO_DEMANDS)[name])

    check(ObservedPods(CLUSTER, JOBSET).see(pod), *["pod-1"] * (name in DEMANDS))


FAILED = ("Failed", "True", SINCE)
STANDINGS: tuple[tuple[tuple[tuple[str, str, str], ...], str], ...] = (
    ((), ""),
    ((completed(),), f"Completed {SINCE}"),
    ((FAILED,), f"Failed {SINCE}"),
    ((suspended("2026-01-01T00:00:00Z"),), "Suspended 2026-01-01T00:00:00Z"),
    ((RESUMED,), ""),
    ((suspended(), completed("2026-01-01T00:00:00Z")), "Completed 2026-01-01T00:00:00Z"),
    ((("StartupPolicyCompleted", "True", SINCE),), ""),
    ((("RestartingJobSet", "True", SINCE),), ""),
    ((("Completed", "False", SINCE),), ""),
)


@pytest.mark.parametrize(("conditions", "expected"), STANDINGS)
def test_a_jobset_stands_as_its_conditions_say(conditions: Any, expected: str) -> None:
    assert find_over(read_jobset(conditions=conditions)) == expected


QUOTA = "quota since 2026-11-23T11:00:00Z"


def test_a_reservation_is_reported_once_and_again_when_the_quota_was_lost_and_is_back() -> None:
    observed, waits = ObservedQueues(CLUSTER), read_queued(a_workload())

    (event,) = observed.see(waits)
    assert structs.astuple(event.subject) == ("JobSet", "default", "train", "uid-of-train")
    check([event], QUOTA)
    check(observed.see(structs.replace(waits, version="8")))
    assert (observed.standing, len(observed)) == (1, 1)
    check(observed.see(read_queued(a_workload(conditions={"QuotaReserved": "False"}))))
    assert (observed.standing, len(observed)) == (0, 1)
    check(observed.see(structs.replace(waits, reserved_at=1_800_000_000.0)), "quota since 2027-01-15T08:00:00Z")
    check(observed.lose(waits))
    assert (observed.standing, len(observed)) == (0, 0)


WAITS_FOR_NOTHING: dict[str, dict[str, Any]] = {
    "no quota": {"conditions": {}},
    "evicted": {"conditions": {"QuotaReserved": "True", "Evicted": "True"}},
    "no check": {"checks": []},
    "ready": {"checks": [each | {"state": "Ready"} for each in CHECKS]},
    "retry": {"checks": [CHECKS[0], CHECKS[1] | {"state": "Retry"}]},
    "no owner": {"ownerReferences": []},
    "unknown kind": {"ownerReferences": [OWNER | {"kind": "MPIJob"}]},
    "deleted": {"deletionTimestamp": "2026-11-23T11:00:00Z"},
}


@pytest.mark.parametrize("changes", WAITS_FOR_NOTHING.values(), ids=WAITS_FOR_NOTHING)
def test_what_waits_for_nothing_is_not_reported(changes: dict[str, Any]) -> None:
    check(ObservedQueues(CLUSTER).see(read_queued(a_workload(**changes))))
