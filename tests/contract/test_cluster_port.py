"""What the engine expects of a cluster's objects, asked of the edge over the embedded cluster.

What only HTTP and Events have (codes, wrong addresses, counts and times) is in
`test_kubernetes_edge`.
"""

from typing import Any

import pytest

from shared.edges.cluster import KubernetesCluster
from shared.edges.connection import Connection
from shared.edges.kubernetes import KubernetesApi
from shared.engine.look import find_user
from shared.kinds import jobset as jobset_keys
from shared.kinds import raycluster
from shared.kinds.replicas import TEMPLATE_HASH
from shared.model import labels
from shared.model.errors import StaleView
from shared.model.pools import PoolNode
from shared.model.workloads import Disk, PodView, WorkloadView
from standins.kit.processes import wait_until
from tests.builders import NOW, a_jobset
from tests.contract.stand_ins import ask
from tests.rules.kind_bodies import a_raycluster

JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
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
    two = {
        "metadata": {"name": "two"},
        "provisioner": "p",
        "allowedTopologies": zones,
        "volumeBindingMode": "WaitForFirstConsumer",
    }
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
    port = KubernetesCluster(KubernetesApi(Connection(url=cluster_url)))
    wait_until(lambda: len([pod for pod in port.list_accelerator_pods() if pod.unschedulable]) == 4)
    return cluster_url


@pytest.fixture
def cluster(url: str) -> KubernetesCluster:
    return KubernetesCluster(KubernetesApi(Connection(url=url)), component="a-test")


def list_of(cluster: KubernetesCluster, jobset: str) -> list[PodView]:
    found = [pod for pod in cluster.list_accelerator_pods() if pod.controller_name.startswith(jobset)]
    return sorted(found, key=lambda pod: (pod.controller_name, pod.completion_index))


def test_what_is_not_there_is_none(cluster: KubernetesCluster) -> None:
    assert cluster.get_workload("JobSet", "default", NO_SUCH) is None
    assert cluster.get_workload("JobSet", NO_SUCH, "train") is None
    assert cluster.get_namespace(NO_SUCH) is None
    assert cluster.list_nodes([NO_SUCH]) == []
    assert cluster.list_bound_pods(NO_SUCH) == []


def test_workloads_are_listed_by_namespace_and_name(cluster: KubernetesCluster) -> None:
    names = {("default", "train"), ("default", "chipless"), ("default", NO_SUCH), (NO_SUCH, "train")}

    listed = cluster.list_workloads("JobSet", names)

    assert {each.name: each for each in listed} == {
        name: cluster.get_workload("JobSet", "default", name) for name in ("train", "chipless")
    }
    assert [each.name for each in cluster.list_workloads("JobSet", {("default", "train")})] == ["train"]
    assert cluster.list_workloads("RayCluster", {("default", "train")}) == []


def test_a_namespace_is_read_with_its_uid_and_its_labels(cluster: KubernetesCluster) -> None:
    found = cluster.get_namespace("default")

    assert found is not None
    assert found.uid
    assert found.labels == {"kubernetes.io/metadata.name": "default"}


def test_a_claim_says_where_its_volume_is_or_why_it_has_none(cluster: KubernetesCluster) -> None:
    bound, later = cluster.find_disk("default", "bound"), cluster.find_disk("default", "later")

    assert bound is not None
    assert (bound.claim, bound.zones, bound.storage_class) == ("bound", ("us-east5-a",), "")
    assert later == Disk(claim="later", zones=("us-east5-a", "us-east5-c"), storage_class="two")
    at_once, missing = cluster.find_disk("default", "open"), cluster.find_disk("default", NO_SUCH)
    assert at_once is not None
    assert at_once.unbound.startswith("is not bound to a volume yet")
    assert missing == Disk(claim=NO_SUCH, zones=(), unbound="does not exist")


def test_accelerator_pods_of_any_kind_are_listed_and_no_others(cluster: KubernetesCluster) -> None:
    found = {pod.name for pod in cluster.list_accelerator_pods()}

    assert {"own", "bare", "elsewhere", "ending", "ray-worker", "ray-head", "of-serve"} <= found
    assert not {"daemon", "done"} & found
    assert [(pod.controller_name, pod.completion_index) for pod in list_of(cluster, "train")] == [
        ("train-workers-0", "0"),
        ("train-workers-0", "1"),
        ("train-workers-1", "0"),
        ("train-workers-1", "1"),
    ]
    assert list_of(cluster, "chipless") == []


def test_a_jobset_is_read_as_a_workload(cluster: KubernetesCluster) -> None:
    jobset = cluster.get_workload("JobSet", "default", "train")

    assert jobset is not None
    assert (jobset.name, jobset.terminal, jobset.suspended, jobset.managed_elsewhere) == (
        "train",
        "",
        False,
        False,
    )


def test_the_pods_of_a_workload_are_those_that_its_kind_selects(cluster: KubernetesCluster) -> None:
    assert [pod.name for pod in cluster.list_workload_pods(a_raycluster())] == ["ray-head", "ray-worker"]
    found = cluster.list_workload_pods(a_jobset())
    assert found
    assert {pod.template.labels[jobset_keys.JOBSET_NAME_ON_POD] for pod in found} == {"train"}
    deployment = WorkloadView(kind="Deployment", namespace="default", name="serve", uid="of-serve")
    assert [pod.name for pod in cluster.list_workload_pods(deployment)] == ["of-serve"]


def test_the_pods_that_would_lose_their_node_are_listed_and_no_others(cluster: KubernetesCluster) -> None:
    found = {pod.name: pod for node in ("n1", "n2") for pod in cluster.list_bound_pods(node)}

    assert sorted(found) == ["bare", "ending", "own"]
    own, bare, ending = found["own"], found["bare"], found["ending"]
    assert (own.template.units, own.node_name, own.deleting_since) == (4, "n1", None)
    assert find_user(own) == ("Pod", "default", "own"), "its controller is no Job of that JobSet"
    assert find_user(bare) == ("Pod", "default", "bare")
    assert ending.deleting_since is not None


def read_marks(cluster: KubernetesCluster) -> list[tuple[str, float | None, bool]]:
    return [(node.name, node.idle_since, node.closed) for node in cluster.list_nodes([MARKED_POOL])]


def test_a_mark_is_put_on_one_node_replaced_and_taken_off(cluster: KubernetesCluster) -> None:
    assert read_marks(cluster) == [("m1", None, False), ("m2", None, False)]

    cluster.mark_idle("m1", NOW)
    assert read_marks(cluster) == [("m1", NOW, False), ("m2", None, False)]
    cluster.mark_idle("m1", NOW + 60, closed=True)
    assert read_marks(cluster) == [("m1", NOW + 60, True), ("m2", None, False)]
    cluster.mark_idle("m1", None)
    assert read_marks(cluster) == [("m1", None, False), ("m2", None, False)]


def test_a_mark_does_not_overwrite_what_others_change_meanwhile(
    cluster: KubernetesCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = KubernetesApi.patch

    def patch_late(api: KubernetesApi, path: str, body: Any) -> None:
        plain(api, path, {"metadata": {"labels": {"changed": "meanwhile"}}})
        plain(api, path, body)

    monkeypatch.setattr(KubernetesApi, "patch", patch_late)

    with pytest.raises(StaleView):
        cluster.mark_idle("m1", NOW)
    assert read_marks(cluster) == [("m1", None, False), ("m2", None, False)]


def test_a_mark_on_a_node_that_is_gone_changes_nothing(cluster: KubernetesCluster) -> None:
    cluster.mark_idle(NO_SUCH, NOW)

    assert read_marks(cluster) == [("m1", None, False), ("m2", None, False)]


def test_nodes_are_read_with_their_pool_and_their_state(cluster: KubernetesCluster) -> None:
    found = cluster.list_nodes([READY_POOL, POOL])

    assert [(node.name, node.pool, node.ready) for node in found] == [
        ("n1", POOL, False),
        ("n2", POOL, False),
        ("r1", READY_POOL, True),
        ("r2", READY_POOL, False),
    ]
    assert all(isinstance(node, PoolNode) for node in found)
