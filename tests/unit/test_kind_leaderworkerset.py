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
from tests.slices import list_slices
from tests.unit.live_pods import a_pod_body, a_pod_of, change, require

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


def names(workload: WorkloadView) -> list[str]:
    return [each.name for each in list_slices(workload)]


SUBGROUPS_OF_2 = {"subGroupSize": 2, "subGroupPolicyType": "LeaderWorker"}
LEADER_EXCLUDED = {"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"}


@pytest.mark.parametrize(
    ("fields", "slices"),
    [
        pytest.param({}, {"serve-0": 4, "serve-1": 4}, id="leader and workers of one template"),
        pytest.param(
            {"leader": WORKER}, {"serve-0": 4, "serve-1": 4}, id="a leader with chips of its own template"
        ),
        pytest.param(
            {"leader": CHIPLESS, "size": 5}, {"serve-0": 4, "serve-1": 4}, id="a chipless leader on the slice"
        ),
        pytest.param({"leader": OF_CPU, "size": 5}, {"serve-0": 4, "serve-1": 4}, id="a leader on a CPU node"),
        pytest.param(
            {"leader": WORKER, "worker": OF_CPU}, {"serve-0": 1, "serve-1": 1}, id="only the leader on TPUs"
        ),
        pytest.param({"size": 1}, {"serve-0": 1, "serve-1": 1}, id="a leader alone"),
        pytest.param({"size": None, "replicas": None}, {"serve-0": 1}, id="as the API fills it in"),
        pytest.param(
            {"size": 1, "leader": CHIPLESS}, {"serve-0": 0, "serve-1": 0}, id="a leader alone without chips"
        ),
        pytest.param(
            {"size": 1, "leader": OF_OTHER_SHAPE, "replicas": 1}, {"serve-0": 1}, id="a leader alone is not apart"
        ),
        pytest.param({"replicas": 0}, {}, id="scaled to nothing"),
        pytest.param({"leader": OF_CPU, "worker": OF_CPU}, {}, id="no accelerators"),
        pytest.param(
            {"subgroups": SUBGROUPS_OF_2, "replicas": 1}, {"serve-0-0": 2, "serve-1-0": 2}, id="two sub-groups"
        ),
        pytest.param(
            {"subgroups": {"subGroupSize": 2}, "replicas": 1},
            {"serve-0-0": 2, "serve-1-0": 2},
            id="the usual policy",
        ),
        pytest.param(
            {"subgroups": SUBGROUPS_OF_2, "size": 5, "leader": CHIPLESS, "replicas": 1},
            {"serve-0-0": 2, "serve-1-0": 2},
            id="a chipless leader on top of the first sub-group",
        ),
        pytest.param(
            {"subgroups": SUBGROUPS_OF_2, "size": 5, "replicas": 1},
            {"serve-0-0": 3, "serve-1-0": 2},
            id="a leader with chips on top: its hosts are too many, which the demand refuses",
        ),
        pytest.param(
            {"subgroups": SUBGROUPS_OF_2, "leader": CHIPLESS, "replicas": 1},
            {"serve-0-0": 1, "serve-1-0": 2},
            id="a chipless leader in place of a host: too few, which the demand refuses",
        ),
        pytest.param(
            {"subgroups": LEADER_EXCLUDED, "size": 5, "leader": OF_CPU},
            {"serve-0-0": 2, "serve-1-0": 2, "serve-0-1": 2, "serve-1-1": 2},
            id="the leader in no sub-group",
        ),
        pytest.param(
            {"subgroups": {"subGroupSize": 1}, "size": 1, "replicas": 1},
            {"serve-0-0": 1},
            id="sub-group of a leader",
        ),
        pytest.param(
            {"subgroups": SUBGROUPS_OF_2, "leader": WORKER, "worker": OF_CPU, "replicas": 1},
            {"serve-0-0": 1},
            id="sub-groups of CPU workers are no slices",
        ),
    ],
)
def test_the_spec_names_its_slices_and_counts_their_hosts(fields: dict[str, Any], slices: dict[str, int]) -> None:
    found = list_slices(a_set(**fields))
    assert {each.name: each.group.hosts for each in found} == slices


@pytest.mark.parametrize(
    ("pod", "is_leader"),
    [
        pytest.param(a_pod(0), True, id="a leader with chips"),
        pytest.param(a_pod(1, leader_asks=True), False, id="worker 1 of a leader with chips"),
        pytest.param(a_pod(0, template=CHIPLESS), True, id="a chipless leader that selects the slice"),
        pytest.param(a_pod(0, template=OF_CPU), False, id="a leader on a CPU node"),
        pytest.param(a_pod(1), True, id="worker 1 of a leader without chips"),
        pytest.param(a_pod(2), True, id="worker 2 of a leader without chips"),
        pytest.param(a_pod(0, subgroup=0), True, id="the leader of two sub-groups"),
        pytest.param(a_pod(1, subgroup=0, leader_asks=True), False, id="its first worker"),
        pytest.param(a_pod(2, subgroup=1, leader_asks=True), True, id="first of the second sub-group"),
        pytest.param(a_pod(1, subgroup=0), True, id="first worker below an extra leader"),
        pytest.param(a_pod(1, labels={SET_NAME: "serve", WORKER_INDEX: "first"}), False, id="no index"),
        pytest.param(a_pod(1, labels={SET_NAME: "serve"}), False, id="no label of the controller"),
    ],
)
def test_which_pod_is_the_leader_of_a_slice(pod: PodView, is_leader: bool) -> None:
    assert LEADERWORKERSET.is_leader(pod) is is_leader


@pytest.mark.parametrize(
    ("pod", "fields", "name"),
    [
        pytest.param(a_pod(0, group=1), {}, "serve-1", id="a leader"),
        pytest.param(a_pod(1, group=1), {"leader": OF_CPU}, "serve-1", id="a worker"),
        pytest.param(
            a_pod(0, subgroup=0), {"subgroups": SUBGROUPS_OF_2}, "serve-0-0", id="a leader of sub-groups"
        ),
        pytest.param(
            a_pod(2, subgroup=1), {"subgroups": SUBGROUPS_OF_2}, "serve-1-0", id="a worker of a sub-group"
        ),
        pytest.param(
            a_pod(0, template=CHIPLESS),
            {"subgroups": LEADER_EXCLUDED, "size": 5, "leader": CHIPLESS},
            "serve-0-0",
            id="a chipless leader of no sub-group waits for the first",
        ),
        pytest.param(a_pod(0, group=2), {}, None, id="a group that was scaled away"),
        pytest.param(a_pod(2, subgroup=2), {"subgroups": SUBGROUPS_OF_2}, None, id="a sub-group that is none"),
        pytest.param(a_pod(0, name="serve-1"), {}, None, id="a leader under another's name"),
        pytest.param(a_pod(1, name="serve-0-2"), {}, None, id="a worker under another's name"),
        pytest.param(
            a_pod(0, ownerReferences=[{"kind": "StatefulSet", "name": "other", "controller": True}]),
            {},
            None,
            id="of another StatefulSet",
        ),
        pytest.param(a_pod(0, ownerReferences=[]), {}, None, id="made by hand"),
        pytest.param(
            a_pod(0), {"leader": OF_CPU, "worker": OF_CPU}, None, id="the live spec asks for no accelerators"
        ),
        pytest.param(
            a_pod(0, name="serve-01", labels={SET_NAME: "serve", GROUP_INDEX: "01", WORKER_INDEX: "0"}),
            {},
            None,
            id="no index of Kubernetes'",
        ),
    ],
)
def test_a_pod_leads_to_its_slice(pod: PodView, fields: dict[str, Any], name: str | None) -> None:
    found = LEADERWORKERSET.find_slice(pod, a_set(**fields))
    assert (found.name if found else None) == name


OF_TEAM, OF_ZONE = change(WORKER, {"example.com/team": "red"}), change(WORKER, {labels.ZONE: "us-east5-a"})
OF_SPOT = change(WORKER, {labels.SPOT: "true"})
TOLERANT = {"spec": OF_SPOT["spec"] | {"tolerations": [{"key": labels.SPOT, "operator": "Exists"}]}}


@pytest.mark.parametrize(
    ("leader", "worker", "field"),
    [
        pytest.param(CHIPLESS, OF_TEAM, "example.com/team", id="chipless, without a label"),
        pytest.param(CHIPLESS, OF_SPOT, labels.SPOT, id="chipless, not on spot"),
        pytest.param(change(CHIPLESS, {labels.ZONE: "a"}), WORKER, labels.ZONE, id="chipless, with more"),
        pytest.param(WORKER, OF_TEAM, "example.com/team", id="chips, without a label"),
        pytest.param(TOLERANT, OF_SPOT, "", id="only the leader tolerates spot"),
        pytest.param(OF_SPOT, TOLERANT, "", id="the workers tolerate more"),
        pytest.param(OF_TEAM, WORKER, "", id="chips, with more"),
        pytest.param(require(WORKER, labels.ZONE, "us-east5-a"), OF_ZONE, "", id="a zone by affinity"),
    ],
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


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"leader": OF_OTHER_SHAPE}, id="chips of another shape"),
        pytest.param({"leader": WORKER, "subgroups": LEADER_EXCLUDED, "size": 5}, id="chips in no sub-group"),
    ],
)
def test_a_leader_with_chips_apart_from_its_workers_is_refused(fields: dict[str, Any]) -> None:
    found = a_set(**fields)
    for pod in (a_pod(0), a_pod(3, subgroup=1)):
        with refuses(SliceUnknown, match="leaderTemplate"):
            LEADERWORKERSET.find_slice(pod, found)
    with refuses(SliceUnknown, match="without chips"):
        list_slices(found)


def test_an_ambiguous_selector_is_left_to_the_demand_to_refuse() -> None:
    template = require(a_pod_body(topology=None), labels.TOPOLOGY, "2x4", "4x4")
    template["spec"]["nodeSelector"] = {}
    assert names(a_set(worker=template, leader=template, replicas=1)) == ["serve-0"]


UPDATING = {"conditions": [{"type": "UpdateInProgress", "status": "True"}], "replicas": 2}
UPDATED = {"conditions": [{"type": "UpdateInProgress", "status": "False"}], "replicas": 2}


@pytest.mark.parametrize(
    ("fields", "groups"),
    [
        pytest.param({}, 2, id="at rest"),
        pytest.param({"surge": 1}, 2, id="at rest, with a surge allowed"),
        pytest.param({"surge": 1, "status": UPDATED}, 2, id="updated"),
        pytest.param({"surge": 1, "status": UPDATING}, 3, id="updating"),
        pytest.param({"surge": 0, "status": UPDATING}, 2, id="updating without surge"),
        pytest.param({"status": UPDATING}, 2, id="updating, nothing said of a surge"),
        pytest.param({"surge": "30%", "status": UPDATING}, 3, id="a percentage is rounded up"),
        pytest.param({"surge": 9, "status": UPDATING}, 4, id="never more than as many again"),
        pytest.param({"surge": 1, "status": {"replicas": 3}}, 3, id="a partitioned update keeps its surplus"),
        pytest.param({"status": {"replicas": 5}}, 2, id="scaled down, the surplus still ends"),
    ],
)
def test_surplus_groups_are_wanted_while_an_update_is_on(fields: dict[str, Any], groups: int) -> None:
    found = a_set(**fields)
    assert names(found) == [f"serve-{index}" for index in range(groups)]


def test_it_is_never_over_and_never_suspended() -> None:
    status = {"conditions": [{"type": each, "status": "True"} for each in ("Available", "Progressing", "Failed")]}
    found = a_set(status=status)
    assert (found.terminal, found.suspended, found.managed_elsewhere) == ("", False, False)


def test_a_deletion_shows() -> None:
    assert a_set(deletionTimestamp="2027-01-15T08:00:00Z").deleting


def test_the_name_comes_from_the_label_and_no_pod_says_the_uid() -> None:
    assert LEADERWORKERSET.find_owner(a_pod(1)) == "serve"
    assert LEADERWORKERSET.find_owner(a_pod(1, labels={})) == ""
    assert LEADERWORKERSET.find_owner_uid(a_pod(1)) == ""
    assert select_pods_of(a_set()) == f"{SET_NAME}=serve"


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"size": "four"}, id="no number"),
        pytest.param({"surge": "many", "status": UPDATING}, id="no percentage"),
        pytest.param({"surge": 1.5, "status": UPDATING}, id="no whole number"),
        pytest.param(
            {"subgroups": {"subGroupSize": 1}, "size": SUBGROUPS_MAX + 2}, id="more sub-groups than sane"
        ),
        pytest.param({"subgroups": {"subGroupPolicyType": 1}}, id="no text"),
    ],
)
def test_an_object_of_another_form_is_unreadable(fields: dict[str, Any]) -> None:
    with pytest.raises(UnexpectedValue):
        a_set(**fields)
