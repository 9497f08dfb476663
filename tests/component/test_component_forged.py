"""Pods that claim more than the spec: no pool, and a Warning on workload and pod that says why."""

from posixpath import normpath
from typing import Any

import msgspec
import pytest

from shared.core import labels
from shared.core.errors import Denied
from shared.core.kinds.job import JOB_NAME_ON_POD
from shared.core.kinds.jobset import JOB_KEY, JOBSET_NAME_ON_POD
from shared.core.kinds.table import get_kind
from shared.core.workloads import WorkloadView
from shared.edges.workload_objects import Pod, view_pod
from tests.builders import CLUSTER, NOW, a_demand_event, a_jobset, a_pod, a_pool, a_template
from tests.component.world import World
from tests.exporter.exporter_builders import a_leader as a_pod_body
from tests.unit.live_pods import OF_CPU, ONE_HOST, a_leader, a_workload

TOLD = [("JobSet", "NodePoolRefused", True), ("Pod", "NodePoolRefused", True)]


def test_a_forged_leader_of_a_cpu_jobset_buys_no_64_hosts(world: World) -> None:
    of_cpu = a_template(accelerator=None, topology=None, chips=0)
    world.cluster.add(a_pod(shape={"topology": "16x16"}), a_jobset(template=of_cpu))

    assert world.deliver(a_demand_event()).status == 200
    assert world.says() == ("refuse", "pod_contradicts_spec")
    world.sweep()
    assert world.pools.names(CLUSTER) == []
    assert world.pools.count("create") == 0
    assert world.notices() == TOLD
    (first, *_) = world.cluster.notices
    assert all(
        part in first.message for part in ("google.com/tpu", "(got '4')", "valid: 0", "JobSet default/train")
    )


def test_a_pod_of_an_earlier_template_touches_no_pool_and_the_refusal_ends_with_its_rollout(world: World) -> None:
    world.deliver(a_demand_event())
    name = world.expect_one_pool()
    world.pools.move(CLUSTER, name, "RUNNING")
    world.cluster.add(a_jobset(template=a_template(topology="2x4")))
    world.use(replace_differing_pools=True)

    for _ in range(3):
        world.deliver(a_demand_event())
        assert world.says() == ("refuse", "pod_contradicts_spec")
        world.sweep()
    assert world.expect_one_pool() == name
    world.cluster.add(a_jobset())
    world.deliver(a_demand_event())
    assert world.says() == ("keep", "pool_serves")


def test_a_forged_pod_of_a_deployment_without_accelerators_is_told_like_any_other(world: World) -> None:
    world.cluster.pods.clear()
    world.cluster.add(a_leader("Deployment", ONE_HOST), a_workload("Deployment", OF_CPU))

    world.sweep()

    assert world.pools.count("create") == 0
    assert world.notices() == [("Deployment", "NodePoolRefused", True), ("Pod", "NodePoolRefused", True)]
    assert all(labels.TPU_RESOURCE in each.message for each in world.cluster.notices)


@pytest.mark.parametrize("owner", ["suspended", "gone", "over"])
def test_a_forged_pod_without_chips_keeps_the_pool_of_an_ended_workload_no_longer_than_pods_may_drain(
    world: World, owner: str
) -> None:
    world.cluster.pods.clear()
    if owner == "gone":
        world.cluster.workloads.clear()
    else:
        since = NOW - 400
        fields = {"suspended": True, "suspended_since": since} if owner == "suspended" else {"terminal": "Failed"}
        world.cluster.add(a_jobset(**fields))
    world.pools.add(CLUSTER, a_pool())
    world.cluster.bind(a_pool().name, chips=0, created_at=NOW - 60)

    world.sweep()
    assert world.pools.count("delete") == 0
    world.clock.advance(world.ports.settings.drain_seconds_max)
    world.sweep()

    assert world.pools.count("delete") == 1


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        pytest.param("../../default/jobsets/train", "train-workers-0", id="annotation"),
        pytest.param("", "../../default/jobs/train", id="owner in another namespace"),
        pytest.param("", "../../../../../../api/v1/secrets?limit=1#", id="owner of another API"),
        pytest.param("", "x" * 3000, id="owner of 3,000 characters"),
    ],
)
def test_a_pod_whose_owner_is_a_path_reaches_no_object_of_others(world: World, path: str, owner: str) -> None:
    plain, asked = world.cluster.get_workload, set[str]()

    def resolve(kind: str, namespace: str, name: str) -> WorkloadView | None:
        """Find the dots of a path as `urllib3` does, and have no right to any other resource."""
        asked.add(name)
        *_, namespace, plural, name = normpath(get_kind(kind).path_of(namespace, name)).split("/")
        if plural != get_kind(kind).plural:
            raise Denied(f"{plural} is forbidden")
        return plain(kind, namespace, name)

    world.cluster.get_workload = resolve  # type: ignore[method-assign]
    world.use(allowed_namespaces=("default",))
    world.cluster.pods.clear()
    world.cluster.namespace_labels["attacker"] = {}
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": "j", "controller": True}
    body: dict[str, Any] = a_pod_body(
        labels={JOB_KEY if path else JOB_NAME_ON_POD: "k", labels.COMPLETION_INDEX: "0"},
        annotations={JOBSET_NAME_ON_POD: path},
        metadata={"namespace": "attacker", "ownerReferences": [reference]},
    )
    world.cluster.add(view_pod(msgspec.convert(body, Pod)))

    assert world.sweep()[0] == 200
    assert world.pools.count("create") == 0
    assert asked <= {"train-workers-0", body["metadata"]["name"]}
    assert not [each for each in world.records.found if each["severity"] in ("ERROR", "CRITICAL")]
