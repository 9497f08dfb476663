"""Groups of leaders and workers as slices: sub-groups, chipless leaders, scale, rolling updates.

Pods are built as the controller and its webhook build them, names and labels as in
https://github.com/kubernetes-sigs/lws/blob/v0.7.0/pkg/webhooks/pod_webhook.go.
"""

from contextlib import nullcontext
from typing import Any

import pytest

from shared.edges.pods import read_template
from shared.kinds.leaderworkerset import (
    GROUP_INDEX,
    LEADER_ASKS_FOR_CHIPS,
    LEADERWORKERSET,
    SET_NAME,
    SUBGROUP_INDEX,
    SUBGROUPS_MAX,
    WORKER_INDEX,
)
from shared.kinds.objects import UnexpectedValue
from shared.kinds.table import select_pods_of
from shared.model import labels
from shared.model.decisions import Reason
from shared.model.errors import SliceUnknown
from shared.model.workloads import SPOT_TAINT, PodView, WorkloadView
from tests.demands import want
from tests.refusals import refuses
from tests.rows import rows
from tests.rules.live_pods import a_pod_body, a_pod_of, change, require
from tests.slices import list_slices

UID = "3c6e52d0-5b0e-4d62-8a52-3d9f0f0c1a08"

WORKER = a_pod_body(topology="4x4")
CHIPLESS = a_pod_body(topology="4x4", chips=0)
OF_CPU: dict[str, Any] = {"spec": {"nodeSelector": {}, "containers": [{"name": "c", "resources": {}}]}}
OF_OTHER_SHAPE = a_pod_body(topology="1x1", chips=1)


def a_set(
    *,
    size: int | None = 4,
    replicas: int | None = 2,
    worker: dict[str, Any] | None = None,
    leader: dict[str, Any] | None = None,
    subgroups: dict[str, Any] | None = None,
    surge: Any = None,
    status: dict[str, Any] | None = None,
    **metadata: Any,
) -> WorkloadView:
    """Two groups of four hosts each, the leader one of them, unless overridden."""
    inner = {
        "size": size,
        "workerTemplate": worker or WORKER,
        "leaderTemplate": leader,
        "subGroupPolicy": subgroups,
    }
    rollout = {"rollingUpdateConfiguration": {"maxSurge": surge}} if surge is not None else {}
    body = {
        "metadata": {"namespace": "default", "name": "serve", "uid": UID} | metadata,
        "spec": {
            "replicas": replicas,
            "leaderWorkerTemplate": {key: value for key, value in inner.items() if value is not None},
            "rolloutStrategy": rollout,
        },
        "status": status or {},
    }
    return LEADERWORKERSET.read(body, read_template)


def a_pod(
    worker: int = 0,
    *,
    group: int = 0,
    template: dict[str, Any] | None = None,
    leader_asks: bool = False,
    subgroup: int | None = None,
    **overrides: Any,
) -> PodView:
    leader = f"serve-{group}"
    pod_labels = {SET_NAME: "serve", GROUP_INDEX: str(group), WORKER_INDEX: str(worker)}
    notes = {LEADER_ASKS_FOR_CHIPS: "true"} if leader_asks and worker else {}
    if subgroup is not None:
        pod_labels[SUBGROUP_INDEX] = str(subgroup)
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": leader if worker else "serve"}
    plain = {
        "name": f"{leader}-{worker}" if worker else leader,
        "uid": f"uid-of-{group}-{worker}",
        "labels": pod_labels,
        "annotations": notes,
    }
    return a_pod_of(owner, template or WORKER, status={}, **plain | overrides)


SUBGROUPS_OF_2 = {"subGroupSize": 2, "subGroupPolicyType": "LeaderWorker"}
WITHOUT_LEADER = {"subgroups": {"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"}, "size": 5}


@rows(
    "pod is_leader",
    {
        "a leader with chips": (a_pod(0), True),
        "worker 1 of a leader with chips": (a_pod(1, leader_asks=True), False),
        "a chipless leader that selects the slice": (a_pod(0, template=CHIPLESS), True),
        "a leader on a CPU node": (a_pod(0, template=OF_CPU), False),
        "worker 1 of a leader without chips": (a_pod(1), True),
        "worker 2 of a leader without chips": (a_pod(2), True),
        "the leader of two sub-groups": (a_pod(0, subgroup=0), True),
        "its first worker": (a_pod(1, subgroup=0, leader_asks=True), False),
        "first of the second sub-group": (a_pod(2, subgroup=1, leader_asks=True), True),
        "first worker below an extra leader": (a_pod(1, subgroup=0), True),
        "no index": (a_pod(1, labels={SET_NAME: "serve", WORKER_INDEX: "first"}), False),
        "no label of the controller": (a_pod(1, labels={SET_NAME: "serve"}), False),
    },
)
def test_which_pod_is_the_leader_of_a_slice(pod: PodView, is_leader: bool) -> None:
    assert LEADERWORKERSET.is_leader(pod) is is_leader


OTHERS = [{"kind": "StatefulSet", "name": "other", "controller": True}]
OF_ZERO_ONE = {SET_NAME: "serve", GROUP_INDEX: "01", WORKER_INDEX: "0"}
NO_CHIPS: dict[str, Any] = {"leader": OF_CPU, "worker": OF_CPU}


@rows(
    "pod fields name",
    {
        "a leader": (a_pod(0, group=1), {}, "serve-1"),
        "a worker": (a_pod(1, group=1), {"leader": OF_CPU}, "serve-1"),
        "a leader of sub-groups": (a_pod(0, subgroup=0), {"subgroups": SUBGROUPS_OF_2}, "serve-0-0"),
        "a worker of a sub-group": (a_pod(2, subgroup=1), {"subgroups": SUBGROUPS_OF_2}, "serve-1-0"),
        "a chipless leader of no sub-group waits for the first": (
            a_pod(0, template=CHIPLESS),
            WITHOUT_LEADER | {"leader": CHIPLESS},
            "serve-0-0",
        ),
        "a group that was scaled away": (a_pod(0, group=2), {}, None),
        "a sub-group that is none": (a_pod(2, subgroup=2), {"subgroups": SUBGROUPS_OF_2}, None),
        "a leader under another's name": (a_pod(0, name="serve-1"), {}, None),
        "a worker under another's name": (a_pod(1, name="serve-0-2"), {}, None),
        "of another StatefulSet": (a_pod(0, ownerReferences=OTHERS), {}, None),
        "made by hand": (a_pod(0, ownerReferences=[]), {}, None),
        "the live spec asks for no accelerators": (a_pod(0), NO_CHIPS, None),
        "no index of Kubernetes'": (a_pod(0, name="serve-01", labels=OF_ZERO_ONE), {}, None),
    },
)
def test_a_pod_leads_to_its_slice(pod: PodView, fields: dict[str, Any], name: str | None) -> None:
    found = LEADERWORKERSET.find_slice(pod, a_set(**fields))
    assert (found.name if found else None) == name


OF_TEAM, OF_ZONE = change(WORKER, {"example.com/team": "red"}), change(WORKER, {labels.ZONE: "us-east5-a"})
OF_SPOT = change(WORKER, {labels.SPOT: "true"})
TOLERANT = {"spec": OF_SPOT["spec"] | {"tolerations": [{"key": labels.SPOT, "operator": "Exists"}]}}


@rows(
    "leader worker field",
    {
        "chipless, without a label": (CHIPLESS, OF_TEAM, "example.com/team"),
        "chipless, not on spot": (CHIPLESS, OF_SPOT, labels.SPOT),
        "chipless, with more": (change(CHIPLESS, {labels.ZONE: "a"}), WORKER, labels.ZONE),
        "chips, without a label": (WORKER, OF_TEAM, "example.com/team"),
        "only the leader tolerates spot": (TOLERANT, OF_SPOT, ""),
        "the workers tolerate more": (OF_SPOT, TOLERANT, ""),
        "chips, with more": (OF_TEAM, WORKER, ""),
        "a zone by affinity": (require(WORKER, labels.ZONE, "us-east5-a"), OF_ZONE, ""),
    },
)
def test_a_leader_and_its_workers_need_the_same_nodes(leader: Any, worker: Any, field: str) -> None:
    with refuses(SliceUnknown, match=f"differ in {field};") if field else nullcontext():
        list_slices(a_set(leader=leader, worker=worker))


def test_a_slice_asks_for_what_serves_leader_and_workers() -> None:
    (group,) = a_set(leader=TOLERANT, worker=change(OF_SPOT, {})).groups

    assert not group.template.tolerates(SPOT_TAINT)


def test_what_only_the_workers_ask_of_their_nodes_is_asked_of_the_slice_too() -> None:
    """Leader and workers share a pool, so one that no worker can use would be bought in vain."""
    worker = a_pod_body(topology="4x4")
    worker["spec"]["containers"][0]["resources"]["limits"]["example.com/fpga"] = "1"
    worker["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "shards"}}]
    asking = a_set(worker=worker, leader=WORKER)
    (need,) = want(asking).needs

    assert need.never is not None
    assert need.never.reason == Reason.RESOURCE_UNKNOWN
    assert "example.com/fpga" in need.never.message
    assert asking.groups[0].template.volume_claims == ("shards",)


@rows(
    "fields",
    {
        "chips of another shape": {"leader": OF_OTHER_SHAPE},
        "chips in no sub-group": WITHOUT_LEADER | {"leader": WORKER},
    },
)
def test_a_leader_with_chips_apart_from_its_workers_is_refused(fields: dict[str, Any]) -> None:
    found = a_set(**fields)
    for pod in (a_pod(0), a_pod(3, subgroup=1)):
        with refuses(SliceUnknown, match="leaderTemplate"):
            LEADERWORKERSET.find_slice(pod, found)
    with refuses(SliceUnknown, match="without chips"):
        list_slices(found)


def test_the_name_comes_from_the_label_and_no_pod_says_the_uid() -> None:
    assert LEADERWORKERSET.find_owner(a_pod(1)) == "serve"
    assert LEADERWORKERSET.find_owner(a_pod(1, labels={})) == ""
    assert LEADERWORKERSET.find_owner_uid(a_pod(1)) == ""
    assert select_pods_of(a_set()) == f"{SET_NAME}=serve"


def test_more_sub_groups_than_sane_are_unreadable() -> None:
    with pytest.raises(UnexpectedValue):
        a_set(subgroups={"subGroupSize": 1}, size=SUBGROUPS_MAX + 2)
