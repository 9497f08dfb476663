"""Is each fact reported once, and none that is not one?"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest
from msgspec import structs

from exporter.observed_objects import ObservedPods, ObservedQueues, ObservedWorkloads, WatchedPod
from shared.edges.kueue import read_queued
from shared.edges.pods import read_workload
from shared.kinds.jobset import JOBSET
from shared.kinds.table import get_kind
from shared.model.messages import Event, EventType, format_message, parse_message
from shared.model.workloads import WorkloadView
from tests.exporter import exporter_builders as builders
from tests.exporter.exporter_builders import CLUSTER, COMPLETED, SINCE, SUSPENDED
from tests.rules.test_kueue import CHECKS, OWNER, a_workload

OPT_OUT = "tpu-provisioner.cloud.google.com/disable-autoprovisioning"
LATER = "2026-11-20T11:00:00Z"
RESERVED_LATER = {"type": "QuotaReserved", "status": "True", "lastTransitionTime": LATER}
LABELS = builders.LABELS


def read_leader(*arguments: Any, **overrides: Any) -> WatchedPod:
    """Return such a leader as the exporter reads it."""
    return msgspec.json.decode(msgspec.json.encode(builders.a_leader(*arguments, **overrides)), type=WatchedPod)


def read_jobset(*arguments: Any, **overrides: Any) -> WorkloadView:
    """Return such a JobSet as the exporter reads it."""
    return read_workload(JOBSET, builders.a_jobset(*arguments, **overrides))


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
    "once however often it changes": "see a unseen; see a > a; see a again; see a placed; standing 0; see a again",
    "when its opt-out is withdrawn": "see a opted out; see a > a",
    "never when it has left": "see a > a; lose a; kept 0; standing 0",
    "a listing that broke off forgets nothing": (
        "see a > a; see b > b; begin; see a; begin; see a; see b; finish; kept 2"
    ),
    "one that is listed but cannot be read is not forgotten": (
        "see a > a; see b > b; begin; miss a; finish; kept 1; begin; miss ; finish; kept 1"
    ),
}
OVER = (COMPLETED,)
WORKLOADS = {
    **{str(slices): read_jobset(replicas=slices) for slices in (1, 2, 3)},
    "over": read_jobset(conditions=OVER),
    "over with 1": read_jobset(replicas=1, conditions=OVER),
    "failed": read_jobset(conditions=(("Failed", "True", SINCE), ("Suspended", "True", LATER))),
    "suspended": read_jobset(conditions=(SUSPENDED,)),
    "resumed": read_jobset(conditions=(("Suspended", "False", SINCE),)),
    "deleting": read_jobset(deleting=LATER),
    "over and deleting": read_jobset(conditions=OVER, deleting=LATER),
    "elsewhere": read_jobset(managed_by="kueue.x-k8s.io/multikueue", conditions=OVER),
    "stays": read_jobset("stays"),
    "of cpu": structs.replace(read_jobset(), groups=()),
    "of cpu, over": structs.replace(read_jobset(conditions=OVER), groups=()),
}
OF_WORKLOADS = {
    "fewer slices, but not more": "see 2; see 3; see 1 > scaled, generation 1; see 1; standing 0",
    "over only, if also fewer": "see 2; see over with 1 > Completed",
    "completed, once": "see 1; see over > Completed; see over; standing 1",
    "failed, though suspended": "see failed > Failed",
    "suspended again within a second": (
        f"see suspended > Suspended {SINCE}; see resumed; see suspended > Suspended {SINCE}"
    ),
    "a deletion, when it begins and ends": ("see deleting > Deleting; see deleting; lose deleting > gone; kept 0"),
    "completed, and then deleted": ("see over > Completed; see over and deleting > Completed, Deleting"),
    "deleted while nobody watched": "see 1; see stays; begin; see stays; finish > gone; finish",
    "of another manager, never": "see elsewhere; lose elsewhere; kept 0",
    "without accelerators, never": "begin; see of cpu, over; finish; lose of cpu, over; kept 0",
    "no longer with accelerators, to its end": "see 1; see of cpu > scaled, generation 1; lose of cpu > gone",
}
QUEUED = {
    "reserved": a_workload(),
    "again": a_workload(resourceVersion="8"),
    "later": a_workload() | {"status": a_workload()["status"] | {"conditions": [RESERVED_LATER]}},
    "lost": a_workload(conditions={"QuotaReserved": "False"}),
    "without check": a_workload(checks=[]),
    "ready": a_workload(checks=[each | {"state": "Ready"} for each in CHECKS]),
    "of nobody": a_workload(ownerReferences=[]),
    "of an unknown kind": a_workload(ownerReferences=[OWNER | {"kind": "MPIJob"}]),
}
QUOTA = "quota since 2026-11-23T11:00:00Z"
OF_QUEUES = {
    "a reservation, once": f"see reserved > {QUOTA}; see again; standing 1; kept 1; lose again; kept 0",
    "a reservation after the quota was lost": (
        f"see reserved > {QUOTA}; see lost; standing 0; kept 1; see later > quota since {LATER}"
    ),
    "what waits for nothing, never": "see without check; see ready; see of nobody; see of an unknown kind",
}
"""What a watch and a listing show in turn, each with the causes of what is then reported."""
OBSERVED: dict[str, tuple[Callable[[], Any], dict[str, Any], str, dict[str, str]]] = {
    "pods": (lambda: ObservedPods(CLUSTER, JOBSET), PODS, "jobset-1", OF_PODS),
    "workloads": (lambda: ObservedWorkloads(CLUSTER, JOBSET), WORKLOADS, "jobset-1", OF_WORKLOADS),
    "queues": (
        lambda: ObservedQueues(CLUSTER),
        {name: read_queued(body) for name, body in QUEUED.items()},
        "uid-of-train",
        OF_QUEUES,
    ),
}
"""By what is watched: the memory, what it sees, the UID of the workload, and the rows."""


@pytest.mark.parametrize(("kind", "row"), [(kind, row) for kind, (*_, steps) in OBSERVED.items() for row in steps])
def test_what_is_new_is_reported(kind: str, row: str) -> None:
    build, items, uid, rows = OBSERVED[kind]
    observed = build()
    calls = {"begin": observed.begin_listing, "finish": observed.finish_listing}

    for step in rows[row].split("; "):
        said, _, wanted = step.partition(" > ")
        verb, _, what = said.partition(" ")
        if verb in ("kept", "standing"):
            assert (len(observed._entries) if verb == "kept" else observed.standing) == int(what), step
        elif verb == "miss":
            observed.miss(what)
        else:
            events = list((calls[verb]() if verb in calls else getattr(observed, verb)(items[what])) or ())
            check(events, *filter(None, [wanted]))
            assert {event.subject.uid for event in events} <= {uid}


CHIPLESS = {"containers": [{"name": "main"}]}
NO_TPU: dict[str, Any] = {"nodeSelector": None, **CHIPLESS}
OTHER = {"type": "PodReadyToStartContainers", "status": "False"}
TPU_SELECTOR = {"nodeSelector": {"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice"}}
DEMANDS: dict[str, dict[str, Any]] = {
    "a leader on TPU selectors": {},
    "one that asks for no chips (Pathways head)": {"spec": CHIPLESS},
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
    "a pod the scheduler has not looked at, with a spec that nobody reads": {
        "status": {"conditions": None},
        "spec": {"containers": "none"},
    },
    "a pod that preempts others": {"status": {"nominatedNodeName": "n1"}},
    "a follower": {"labels": LABELS | {"batch.kubernetes.io/job-completion-index": "1"}},
    "a pod of no JobSet": {"labels": {"batch.kubernetes.io/job-completion-index": "0"}},
    "a pod opted out by label": {"labels": LABELS | {OPT_OUT: "true"}},
    "a pod opted out by annotation": {"annotations": {OPT_OUT: "true"}},
    "a CPU pod": {"spec": NO_TPU},
}


@pytest.mark.parametrize("name", [*DEMANDS, *NO_DEMANDS])
def test_a_pod_is_a_demand_or_none(name: str) -> None:
    pod = read_leader(**(DEMANDS | NO_DEMANDS)[name])

    check(ObservedPods(CLUSTER, JOBSET).see(pod), *["pod-1"] * (name in DEMANDS))
