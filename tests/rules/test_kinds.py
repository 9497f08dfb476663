"""Workloads of every kind as rules see them: slices and hosts, what is over, what is suspended."""

from collections.abc import Callable
from typing import Any

import pytest

from shared.edges.pods import read_template
from shared.kinds.objects import UnexpectedValue
from shared.kinds.raycluster import RAYCLUSTER
from shared.model import labels
from shared.model.workloads import WorkloadView
from tests.rows import read_rows
from tests.rules import test_kind_job, test_kind_leaderworkerset, test_kind_replicas
from tests.rules.live_pods import a_pod_body, require
from tests.rules.rayclusters import a_body, a_group
from tests.rules.test_workload_objects import jobset
from tests.slices import list_slices

Json = dict[str, Any]
TEMPLATES = {
    "4x4": a_pod_body(topology="4x4"),
    "2x2": a_pod_body(),
    "2x4 of 8": a_pod_body(topology="2x4", chips=8),
    "1x1 of 1": a_pod_body(topology="1x1", chips=1),
    "none of 8": a_pod_body(topology=None, chips=8),
    "chipless": a_pod_body(topology="4x4", chips=0),
    "4 by 4": a_pod_body(topology="4 by 4"),
    "2x2 or 4x4": require(a_pod_body(topology=None), labels.TOPOLOGY, "2x2", "4x4"),
    "2x4 or 4x4": require({"spec": a_pod_body()["spec"] | {"nodeSelector": {}}}, labels.TOPOLOGY, "2x4", "4x4"),
    "cpu": {"spec": {"nodeSelector": {}, "containers": [{"name": "c", "resources": {}}]}},
}
PARTS = ("template", "leader", "worker")
BUILDERS: dict[str, Callable[..., WorkloadView]] = {
    "Job": test_kind_job.a_job,
    "LeaderWorkerSet": test_kind_leaderworkerset.a_set,
    "Deployment": test_kind_replicas.a_deployment,
    "StatefulSet": test_kind_replicas.a_set,
    "JobSet": jobset,
}


def read(of: str, has: Json, group: Json, conditions: dict[str, str], owner: Json) -> WorkloadView:
    held = [
        {"type": each, "status": status, "lastTransitionTime": "2027-01-15T08:00:00Z"}
        for each, status in conditions.items()
    ]
    if of == "RayCluster":
        return RAYCLUSTER.read(a_body(a_group(**group), conditions=held, **has), read_template)
    fields = {key: TEMPLATES[value] if key in PARTS else value for key, value in has.items()}
    if held:
        fields["status"] = {"conditions": held, "replicas": 2}
    if owner:
        fields["metadata"] = {"ownerReferences": [owner]}
    return BUILDERS[of](**fields)


def see(workload: WorkloadView, what: str) -> Any:
    """Return what rules see of a workload, in the words of a row."""
    slices = list_slices(workload)
    if what == "slices":
        return {each.name: each.group.hosts for each in slices}
    if what == "names":
        return [each.name for each in slices]
    if what == "nodes":
        return sum(each.group.replicas if each.group.elastic else each.group.hosts for each in slices)
    if what == "groups":
        return list(workload.groups)
    if what == "group":
        (group,) = workload.groups
        assert group.template.chips == 4
        return [group.name, group.replicas, group.slots, group.hosts]
    return getattr(workload, what)


@read_rows("kinds.yaml", "of has group conditions owner reads", section="of")
def test_a_workload_reads_as_its_controller_has_it(
    of: str, has: Json, group: Json, conditions: dict[str, str], owner: Json, reads: Any
) -> None:
    if reads == "unreadable":
        with pytest.raises(UnexpectedValue):
            read(of, has, group, conditions, owner)
        return
    workload = read(of, has, group, conditions, owner)

    assert {what: see(workload, what) for what in reads} == reads
