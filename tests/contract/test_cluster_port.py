"""The contract of the port `Cluster`, for two implementations: the edge and the fake.

The edge reads the embedded cluster. The fake is that of the component tests; it holds a copy of the
cluster's objects. What only HTTP and Events have (codes, wrong addresses, counts and times) is
asked of the edge alone, in `test_kubernetes_edge`.
"""

from typing import Any

import pytest

from shared.engine.outside import Cluster, Ledger, LimitHold, SurplusMark
from shared.kinds import jobset as jobset_keys
from shared.kinds import raycluster
from shared.kinds.deployment import TEMPLATE_HASH
from shared.model import labels
from shared.model.errors import StaleView
from shared.model.readings import BoundPod
from shared.model.workloads import Disk, PodView, Taint, WorkloadView
from shared.needs.demands import decide_demand
from standins.processes.stand_ins import wait_until
from tests.builders import CLUSTER, NOW, a_jobset, settings
from tests.contract.cluster_worlds import JOBSETS, ClusterWorld, a_notice, edge_world, fake_world, open_edge
from tests.contract.stand_ins import ask
from tests.demands import expect_demand
from tests.unit.rayclusters import a_raycluster

PODS = "/api/v1/namespaces/default/pods"
POOL, MARKED_POOL, READY_POOL = "pool-of-ours", "pool-with-marks", "pool-with-a-ready-node"
WORKER = {raycluster.CLUSTER: "llm", raycluster.NODE_TYPE: raycluster.WORKER}
NO_SUCH = "no-such-name"


def a_jobset_body(name: str, *, chips: int, slices: int) -> dict[str, Any]:
    limits = {"resources": {"limits": {labels.TPU_RESOURCE: str(chips)}}} if chips else {}
    selector = {labels.ACCELERATOR: "tpu-v6e-slice", labels.TOPOLOGY: "2x4"} if chips else {}
    spec = {
        "nodeSelector": selector,
        "containers": [{"name": "c", "image": "i", **limits}],
        "restartPolicy": "Never",
    }
    job = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": {"spec": spec}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"replicatedJobs": [{"name": "workers", "replicas": slices, "template": {"spec": job}}]},
    }


def a_pod_body(name: str, node: str = "", **change: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"limits": {labels.TPU_RESOURCE: "4"}}}
    placed = {"nodeName": node} if node else {}
    return {"metadata": {"name": name, **change}, "spec": {"containers": [container], **placed}}


def owned_by(kind: str, name: str = "o") -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u", "controller": True}
    return {"ownerReferences": [owner]}


def fill_pools(url: str) -> None:
    """Make the nodes of three pools, and put pods of every kind on those of the first."""
    homes = {"n1": POOL, "n2": POOL, "n3": "another-pool", "m1": MARKED_POOL, "m2": MARKED_POOL}
    for node, home in homes.items():
        ask("POST", f"{url}/api/v1/nodes", {"metadata": {"name": node, "labels": {labels.NODE_POOL: home}}})
    for pod in (
        a_pod_body("own", "n1", labels={jobset_keys.JOBSET_NAME_ON_POD: "train"}),
        a_pod_body("bare", "n2"),
        a_pod_body("elsewhere", "n3"),
        a_pod_body("daemon", "n1", **owned_by("DaemonSet")),
        a_pod_body("static", "n1", annotations={"kubernetes.io/config.mirror": "x"}),
        a_pod_body("done", "n2"),
        a_pod_body("ending", "n2", finalizers=["example.com/held"]),
        a_pod_body("ray-worker", "n3", labels=WORKER),
        a_pod_body("ray-head", "n3", labels=WORKER | {raycluster.NODE_TYPE: "head"}),
        a_pod_body("ray-other", "n3", labels=WORKER | {raycluster.CLUSTER: "another"}),
        a_pod_body("of-serve", "n3", labels={TEMPLATE_HASH: "5d9"}, **owned_by("ReplicaSet", "serve-5d9")),
        a_pod_body("of-serve-too", "n3", labels={TEMPLATE_HASH: "5d9"}, **owned_by("ReplicaSet", "serve-too-5d9")),
    ):
        ask("POST", f"{url}{PODS}", pod)
    for name, ready in (("r1", "True"), ("r2", "Unknown")):
        meta = {"name": name, "labels": {labels.NODE_POOL: READY_POOL}}
        # Cordoned, so that the pods that wait go on waiting.
        spec = {"unschedulable": True, "taints": [{"key": labels.SPOT, "value": "true", "effect": "NoSchedule"}]}
        ask("POST", f"{url}/api/v1/nodes", {"metadata": meta, "spec": spec})
        node = ask("GET", f"{url}/api/v1/nodes/{name}")
        del node["metadata"]["resourceVersion"]  # a controller taints it at the same time
        node["status"]["conditions"] = [{"type": "Ready", "status": ready}]
        if ready == "True":
            node["status"]["allocatable"] = {labels.TPU_RESOURCE: "4", "cpu": "179500m", "memory": "700Gi"}
        ask("PUT", f"{url}/api/v1/nodes/{name}/status", node)
    fill_disks(url)
    done = ask("GET", f"{url}{PODS}/done")
    done["status"]["phase"] = "Succeeded"
    ask("PUT", f"{url}{PODS}/done/status", done)
    ask("DELETE", f"{url}{PODS}/ending")


def fill_disks(url: str) -> None:
    """Make three claims: a disk in one zone, a class of two zones, and one with nothing known."""
    here = [{"matchExpressions": [{"key": "topology.gke.io/zone", "operator": "In", "values": ["us-east5-a"]}]}]
    zones = [{"matchLabelExpressions": [{"key": "topology.gke.io/zone", "values": ["us-east5-c", "us-east5-a"]}]}]
    volume = {"metadata": {"name": "pv-1"}, "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": here}}}}
    ask("POST", f"{url}/api/v1/persistentvolumes", volume)
    two = {"metadata": {"name": "two"}, "provisioner": "p", "allowedTopologies": zones}
    ask("POST", f"{url}/apis/storage.k8s.io/v1/storageclasses", two)
    for name, spec in (("bound", {"volumeName": "pv-1"}), ("later", {"storageClassName": "two"}), ("open", {})):
        body = {"metadata": {"name": name}, "spec": spec}
        ask("POST", f"{url}/api/v1/namespaces/default/persistentvolumeclaims", body)


@pytest.fixture(scope="module")
def url(cluster_url: str) -> str:
    """A cluster where a JobSet of two slices and one without chips wait, and pods run on nodes."""
    fill_pools(cluster_url)
    ask("POST", f"{cluster_url}{JOBSETS}", a_jobset_body("train", chips=4, slices=2))
    ask("POST", f"{cluster_url}{JOBSETS}", a_jobset_body("chipless", chips=0, slices=1))
    port = open_edge(cluster_url)
    wait_until(lambda: len([pod for pod in port.list_waiting_leaders() if pod.unschedulable]) == 2)
    wait_until(lambda: len(unbound_followers(cluster_url)) == 3)
    return cluster_url


def unbound_followers(url: str) -> list[dict[str, Any]]:
    """Return the pods that the scheduler has refused, beside those of index 0."""
    return [
        pod
        for pod in ask("GET", f"{url}{PODS}")["items"]
        if pod["metadata"].get("labels", {}).get(labels.COMPLETION_INDEX) == "1"
        and any(each["type"] == "PodScheduled" for each in pod["status"].get("conditions", ()))
    ]


@pytest.fixture(params=["edge", "fake"])
def world(request: pytest.FixtureRequest, url: str) -> ClusterWorld:
    return edge_world(url) if request.param == "edge" else fake_world(url)


@pytest.fixture
def cluster(world: ClusterWorld) -> Cluster:
    return world.port


def leaders_of(cluster: Cluster, jobset: str = "train") -> list[PodView]:
    found = [pod for pod in cluster.list_waiting_leaders() if pod.controller_name.startswith(jobset)]
    return sorted(found, key=lambda pod: pod.controller_name)


def test_a_pod_that_needs_no_accelerators_is_no_waiting_leader(cluster: Cluster) -> None:
    assert len(leaders_of(cluster)) == 2
    assert leaders_of(cluster, "chipless") == []


def test_what_is_not_there_is_none(cluster: Cluster) -> None:
    assert cluster.get_pod("default", NO_SUCH) is None
    assert cluster.get_workload("JobSet", "default", NO_SUCH) is None
    assert cluster.get_workload("JobSet", NO_SUCH, "train") is None
    assert cluster.get_namespace(NO_SUCH) is None
    assert cluster.list_pool_pods(NO_SUCH) == []
    assert cluster.list_surplus_marks(NO_SUCH) == {}


def test_a_namespace_is_read_with_its_uid_and_its_labels(cluster: Cluster) -> None:
    found = cluster.get_namespace("default")

    assert found is not None
    assert found.uid
    assert found.labels == {"kubernetes.io/metadata.name": "default"}


def test_a_ledger_is_written_only_over_the_version_that_was_read(cluster: Cluster) -> None:
    first = cluster.read_ledger("default")
    assert (first.version, first.entries) == ("", {})
    entry = LimitHold(namespace="team-a", chips=16, made_at=NOW + 0.25, again=True)

    written = cluster.write_ledger("default", Ledger(version="", entries={"pool-a": entry}))

    assert written.entries == {"pool-a": entry}
    assert cluster.read_ledger("default") == written
    with pytest.raises(StaleView):  # another process has created it meanwhile
        cluster.write_ledger("default", first)
    last = cluster.write_ledger("default", Ledger(version=written.version, entries={}))
    with pytest.raises(StaleView):
        cluster.write_ledger("default", written)
    assert cluster.read_ledger("default") == last
    assert last.entries == {}


def test_the_zones_of_the_disk_of_a_claim_are_found(cluster: Cluster) -> None:
    bound, later = cluster.find_disk("default", "bound"), cluster.find_disk("default", "later")

    assert bound is not None
    assert (bound.claim, bound.zones, bound.storage_class) == ("bound", ("us-east5-a",), "")
    assert bound.made_at is not None
    assert later == Disk(claim="later", zones=("us-east5-a", "us-east5-c"), storage_class="two")
    for name in ("open", NO_SUCH):
        assert cluster.find_disk("default", name) is None
    assert cluster.find_disk(NO_SUCH, "bound") is None


def test_only_the_leaders_that_wait_are_listed(cluster: Cluster) -> None:
    found = leaders_of(cluster)

    assert [pod.controller_name for pod in found] == ["train-workers-0", "train-workers-1"]
    assert all(pod.completion_index == "0" and not pod.node_name for pod in found)
    assert {pod.template.chips for pod in found} == {4}


def test_the_other_accelerator_pods_of_slices_that_wait_are_listed_apart(cluster: Cluster) -> None:
    found = list(cluster.list_waiting_followers())

    assert sorted(pod.controller_name for pod in found) == ["train-workers-0", "train-workers-1"]
    assert all(pod.completion_index == "1" and not pod.node_name for pod in found)


def test_a_leader_and_its_jobset_are_read_as_a_demand(cluster: Cluster) -> None:
    leader = leaders_of(cluster)[0]
    pod = cluster.get_pod("default", leader.name)
    jobset = cluster.get_workload("JobSet", "default", "train")

    assert pod == leader
    assert jobset is not None
    assert (jobset.name, jobset.terminal, jobset.suspended, jobset.managed_elsewhere) == (
        "train",
        "",
        False,
        False,
    )
    demand = expect_demand(decide_demand(CLUSTER, pod, jobset, settings()) if pod else None)
    assert (demand.shape.machine_type, demand.shape.node_count) == ("ct6e-standard-4t", 2)
    assert demand.claim.owner_uid == jobset.uid
    assert demand.claim.slice_key == f"default/{leader.controller_name}"


def test_the_pods_of_a_workload_are_those_that_its_kind_selects(cluster: Cluster) -> None:
    assert [pod.name for pod in cluster.list_workload_pods(a_raycluster())] == ["ray-head", "ray-worker"]
    found = cluster.list_workload_pods(a_jobset())
    assert found
    assert {pod.template.labels[jobset_keys.JOBSET_NAME_ON_POD] for pod in found} == {"train"}
    deployment = WorkloadView(kind="Deployment", namespace="default", name="serve", uid="of-serve")
    assert [pod.name for pod in cluster.list_workload_pods(deployment)] == ["of-serve"]


def test_the_pool_of_each_node_is_found_for_some_pools(cluster: Cluster) -> None:
    found = cluster.find_pools_of_nodes([POOL, NO_SUCH])

    assert found == {"n1": POOL, "n2": POOL}
    assert cluster.find_pools_of_nodes([]) == {}


def test_some_nodes_of_some_pools_are_found_if_there_are_any(cluster: Cluster) -> None:
    found = cluster.find_pools_of_nodes([NO_SUCH, POOL], some=True)

    assert found
    assert found.items() <= {"n1": POOL, "n2": POOL}.items()
    assert cluster.find_pools_of_nodes([NO_SUCH], some=True) == {}


def test_the_pods_that_would_lose_their_node_are_listed_and_no_others(cluster: Cluster) -> None:
    found = {pod.name: pod for pod in cluster.list_pool_pods(POOL)}

    assert sorted(found) == ["bare", "ending", "own"]
    assert (found["own"].workload, found["own"].chips, found["own"].node) == ("train", 4, "n1")
    assert (found["bare"].kind, found["bare"].workload, found["bare"].deleting_since) == ("Pod", "bare", None)
    assert found["ending"].deleting_since is not None


def test_a_mark_is_put_on_one_node_replaced_and_taken_off(cluster: Cluster) -> None:
    assert cluster.list_surplus_marks(MARKED_POOL) == {"m1": None, "m2": None}

    cluster.mark_surplus("m1", NOW)
    assert cluster.list_surplus_marks(MARKED_POOL) == {"m1": SurplusMark(NOW, closed=False), "m2": None}
    cluster.mark_surplus("m1", NOW + 60, closed=True)
    assert cluster.list_surplus_marks(MARKED_POOL) == {"m1": SurplusMark(NOW + 60, closed=True), "m2": None}
    cluster.mark_surplus("m1", None)
    assert cluster.list_surplus_marks(MARKED_POOL) == {"m1": None, "m2": None}


def test_a_mark_on_a_node_that_is_gone_changes_nothing(cluster: Cluster) -> None:
    cluster.mark_surplus(NO_SUCH, NOW)

    assert cluster.list_surplus_marks(MARKED_POOL) == {"m1": None, "m2": None}


def test_the_same_notice_again_adds_no_other_event(world: ClusterWorld) -> None:
    for message in ("wrong topology", "wrong topology", "another thing"):
        world.port.write_notice(a_notice(message))

    assert sorted(world.list_told("u-1")) == ["another thing", "wrong topology"]


def test_the_fake_answers_every_question_as_the_edge_does(url: str) -> None:
    edge, fake = edge_world(url).port, fake_world(url).port

    def by_name(found: list[PodView] | list[BoundPod]) -> list[PodView | BoundPod]:
        return sorted(found, key=lambda pod: (pod.namespace, pod.name))

    assert by_name(list(fake.list_waiting_leaders())) == by_name(list(edge.list_waiting_leaders()))
    assert by_name(list(fake.list_waiting_followers())) == by_name(list(edge.list_waiting_followers()))
    for pool in (POOL, MARKED_POOL, "another-pool"):
        assert by_name(fake.list_pool_pods(pool)) == by_name(edge.list_pool_pods(pool))
        assert fake.find_pools_of_nodes([pool, POOL]) == edge.find_pools_of_nodes([pool, POOL])
        assert fake.list_pool_nodes(pool) == edge.list_pool_nodes(pool)
        assert fake.list_surplus_marks(pool) == edge.list_surplus_marks(pool)
    for name in ("train", "chipless"):
        assert fake.get_workload("JobSet", "default", name) == edge.get_workload("JobSet", "default", name)
    for pod in ("own", "ending", "ray-head"):
        assert fake.get_pod("default", pod) == edge.get_pod("default", pod)


def test_nodes_are_read_with_their_state_their_taints_and_what_they_offer(cluster: Cluster) -> None:
    found = {node.name: node for node in cluster.list_pool_nodes(READY_POOL)}

    assert [(name, node.ready, node.cordoned) for name, node in sorted(found.items())] == [
        ("r1", True, True),
        ("r2", False, True),
    ]
    assert Taint("cloud.google.com/gke-spot", "true", "NoSchedule") in found["r1"].taints
    assert (found["r1"].units, found["r1"].cpu_millis, found["r1"].memory_bytes) == (4, 179_500, 700 * 2**30)
    assert (found["r2"].units, found["r2"].cpu_millis, found["r2"].memory_bytes) == (None, None, None)
    assert not any(node.ready for node in cluster.list_pool_nodes(POOL))
    assert cluster.list_pool_nodes(NO_SUCH) == []


def test_the_waiting_pods_of_a_kind_are_those_of_one_namespace_without_a_node(cluster: Cluster) -> None:
    found = cluster.list_waiting_pods("JobSet", "default")

    assert {pod.template.labels[jobset_keys.JOBSET_NAME_ON_POD] for pod in found} == {"train", "chipless"}
    assert len([pod for pod in found if pod.template.chips]) == 4
    assert all(pod.created_at and not pod.node_name for pod in found)
    assert cluster.list_waiting_pods("JobSet", NO_SUCH) == []
