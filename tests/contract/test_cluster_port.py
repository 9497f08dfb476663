"""What the engine expects of a cluster's objects, asked of the edge over the embedded cluster.

And what lists, Events and wrong addresses have of their own.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from shared.edges.cluster import KubernetesCluster
from shared.edges.connection import Connection
from shared.edges.kubernetes import PAGE_SIZE, KubernetesApi, Page, Unreadable
from shared.engine.look import find_user
from shared.kinds import raycluster
from shared.kinds.jobset import JOBSET_NAME_ON_POD
from shared.kinds.replicas import TEMPLATE_HASH
from shared.model import labels
from shared.model.errors import KindAbsent, StaleView, Unavailable
from shared.model.names import ObjectName
from shared.model.times import format_time
from shared.model.workloads import Disk, Notice, WorkloadView
from standins.kit.processes import wait_until
from tests.builders import NOW, a_jobset
from tests.clocks import StepClock
from tests.contract.gke_world import ask
from tests.loop.bodies import build_workload
from tests.loop.surroundings import list_bound, list_unbound, name_claims

Body = dict[str, Any]
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
NAMESPACE, NODES = "/api/v1/namespaces/default", "/api/v1/nodes"
NO_SUCH = "no-such-name"
HOMES = {"n1": "ours", "n2": "ours", "n3": "another", "m1": "marked", "m2": "marked", "r1": "ready", "r2": "ready"}
WORKER = {raycluster.CLUSTER: "llm", raycluster.NODE_TYPE: raycluster.WORKER}


def owned_by(kind: str, name: str) -> Body:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u", "controller": True}
    return {"ownerReferences": [owner]}


PODS: dict[str, tuple[str, Body]] = {
    "own": ("n1", {"labels": {JOBSET_NAME_ON_POD: "train"}}),
    "bare": ("n2", {}),
    "elsewhere": ("n3", {}),
    "daemon": ("n1", owned_by("DaemonSet", "o")),
    "static": ("n1", owned_by("Node", "n1")),
    "done": ("n2", {}),
    "ending": ("n2", {"finalizers": ["example.com/held"]}),
    "ray-worker": ("n3", {"labels": WORKER}),
    "ray-head": ("n3", {"labels": WORKER | {raycluster.NODE_TYPE: "head"}}),
    "ray-other": ("n3", {"labels": WORKER | {raycluster.CLUSTER: "another"}}),
    "of-serve": ("n3", {"labels": {TEMPLATE_HASH: "5d9"}, **owned_by("ReplicaSet", "serve-5d9")}),
    "of-serve-too": ("n3", {"labels": {TEMPLATE_HASH: "5d9"}, **owned_by("ReplicaSet", "serve-too-5d9")}),
}
"""The node of each pod, and its metadata."""
DISKS = list_bound("default", "bound", "pv-1", "a") + list_unbound("default", "later", "two", "c")


def create(url: str, path: str, name: str, body: Body, **metadata: Any) -> None:
    ask("POST", f"{url}{path}", {**body, "metadata": {"name": name, **metadata}})


def set_status(url: str, path: str, **status: Any) -> None:
    body = ask("GET", f"{url}{path}")
    del body["metadata"]["resourceVersion"]  # a controller taints nodes at the same time
    body["status"] |= status
    ask("PUT", f"{url}{path}/status", body)


@pytest.fixture(scope="module")
def url(cluster_url: str) -> str:
    """A cluster where a JobSet of two slices and one without chips wait, and pods run on nodes."""
    for node, home in HOMES.items():
        # Cordoned, so that the pods that wait go on waiting.
        spec = {"unschedulable": True, "taints": [{"key": "example.com/a", "value": "5", "effect": "NoSchedule"}]}
        create(cluster_url, NODES, node, {"spec": spec}, labels={labels.NODE_POOL: home})
    container = {"name": "c", "image": "i", "resources": {"limits": {labels.TPU_RESOURCE: "4"}}}
    for pod, (node, metadata) in PODS.items():
        spec = {"containers": [container], "nodeName": node}
        create(cluster_url, f"{NAMESPACE}/pods", pod, {"spec": spec}, **metadata)
    for path, body in DISKS:
        ask("POST", f"{cluster_url}{path}", body)
    create(cluster_url, name_claims("default"), "open", {"spec": {}})
    for node, ready in (("r1", "True"), ("r2", "Unknown")):
        set_status(cluster_url, f"{NODES}/{node}", conditions=[{"type": "Ready", "status": ready}])
    set_status(cluster_url, f"{NAMESPACE}/pods/done", phase="Succeeded")
    ask("DELETE", f"{cluster_url}{NAMESPACE}/pods/ending")
    jobs: dict[str, Body] = {"train": {"replicas": 2}, "chipless": {"tpu": "", "pods": 2}}
    for name, job in jobs.items():
        body = build_workload({"kind": "JobSet", "jobs": [{"job": "workers", **job}]}, name)
        ask("POST", f"{cluster_url}{JOBSETS}", body)
    port = open_edge(cluster_url)
    wait_until(lambda: len([pod for pod in port.list_accelerator_pods() if pod.unschedulable]) == 4)
    return cluster_url


def open_edge(url: str, clock: StepClock | None = None) -> KubernetesCluster:
    return KubernetesCluster(KubernetesApi(Connection(url=url)), component="a-test", clock=clock or StepClock(NOW))


@pytest.fixture
def cluster(url: str) -> KubernetesCluster:
    return open_edge(url)


def test_what_is_not_there_is_none(cluster: KubernetesCluster) -> None:
    assert cluster.get_workload("JobSet", "default", NO_SUCH) is None
    assert cluster.get_workload("JobSet", NO_SUCH, "train") is None
    assert cluster.get_namespace(NO_SUCH) is None
    assert cluster.list_nodes([NO_SUCH]) == []
    assert cluster.list_bound_pods(NO_SUCH) == []


def test_workloads_are_read_and_listed_by_namespace_and_name(cluster: KubernetesCluster) -> None:
    names = {("default", "train"), ("default", "chipless"), ("default", NO_SUCH), (NO_SUCH, "train")}
    alone = {name: cluster.get_workload("JobSet", "default", name) for name in ("train", "chipless")}

    assert {each.name: each for each in cluster.list_workloads("JobSet", names)} == alone
    assert [each.name for each in cluster.list_workloads("JobSet", {("default", "train")})] == ["train"]
    assert cluster.list_workloads("RayCluster", {("default", "train")}) == []
    train = alone["train"]
    assert train is not None
    assert (train.name, train.terminal, train.suspended, train.managed_elsewhere) == ("train", "", False, False)


def test_a_namespace_is_read_with_its_uid_and_its_labels(cluster: KubernetesCluster) -> None:
    namespace = cluster.get_namespace("default")

    assert namespace is not None
    assert namespace.uid
    assert namespace.labels == {"kubernetes.io/metadata.name": "default"}


def test_a_claim_says_where_its_volume_is_or_why_it_has_none(cluster: KubernetesCluster) -> None:
    assert cluster.find_disk("default", "bound") == Disk(claim="bound", zones=("a",))
    assert cluster.find_disk("default", "later") == Disk(claim="later", zones=("c",))
    assert cluster.find_disk("default", NO_SUCH) == Disk(claim=NO_SUCH, unbound="does not exist")
    at_once = cluster.find_disk("default", "open")
    assert at_once is not None
    assert at_once.unbound.startswith("is not bound to a volume yet")


def test_accelerator_pods_of_any_kind_are_listed_and_no_others(cluster: KubernetesCluster) -> None:
    pods = list(cluster.list_accelerator_pods())

    assert {pod.name for pod in pods} >= PODS.keys() - {"daemon", "done", "static"}
    assert not {"daemon", "done"} & {pod.name for pod in pods}
    of_jobs = [(pod.controller_name, pod.completion_index) for pod in pods if pod.controller_kind == "Job"]
    assert sorted(of_jobs) == [(f"train-workers-{job}", pod) for job in "01" for pod in "01"]


def test_the_pods_of_a_workload_are_those_that_its_kind_selects(cluster: KubernetesCluster) -> None:
    deployment = WorkloadView(kind="Deployment", namespace="default", name="serve", uid="of-serve")
    raycluster = WorkloadView(kind="RayCluster", namespace="default", name="llm", uid="of-llm")

    assert [pod.name for pod in cluster.list_workload_pods(raycluster)] == ["ray-head", "ray-worker"]
    of_train = {pod.template.labels[JOBSET_NAME_ON_POD] for pod in cluster.list_workload_pods(a_jobset())}
    assert of_train == {"train"}
    assert [pod.name for pod in cluster.list_workload_pods(deployment)] == ["of-serve"]


def test_the_pods_that_would_lose_their_node_are_listed_and_no_others(cluster: KubernetesCluster) -> None:
    pods = {pod.name: pod for node in ("n1", "n2") for pod in cluster.list_bound_pods(node)}

    assert sorted(pods) == ["bare", "ending", "own"]
    own, bare, ending = pods["own"], pods["bare"], pods["ending"]
    assert (own.template.units, own.node_name, own.deleting_since) == (4, "n1", None)
    assert find_user(own) == ("Pod", "default", "own"), "its controller is no Job of that JobSet"
    assert find_user(bare) == ("Pod", "default", "bare")
    assert ending.deleting_since is not None


def read_marks(cluster: KubernetesCluster) -> list[tuple[str, float | None, bool]]:
    return [(node.name, node.idle_since, node.closed) for node in cluster.list_nodes(["marked"])]


def test_a_mark_is_put_on_one_node_replaced_and_taken_off(cluster: KubernetesCluster) -> None:
    for mark in ((None, False), (NOW, False), (NOW + 60, True), (None, False)):
        cluster.mark_idle("m1", mark[0], closed=mark[1])
        cluster.mark_idle(NO_SUCH, NOW)
        assert read_marks(cluster) == [("m1", *mark), ("m2", None, False)]


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


def test_nodes_are_read_with_their_pool_and_their_state(cluster: KubernetesCluster) -> None:
    nodes = [(node.name, node.pool, node.ready) for node in cluster.list_nodes(["ready", "ours"])]

    ours = [("n1", "ours", False), ("n2", "ours", False)]
    assert nodes == [*ours, ("r1", "ready", True), ("r2", "ready", False)]


class Pages(KubernetesApi):
    """Answers each list with pages, and keeps what was asked."""

    def __init__(self, *pages: Page) -> None:
        super().__init__(Connection(url="http://127.0.0.1:1"))
        self.pages, self.read, self.selectors = pages, 0, list[str]()

    def list_pages(self, path: str, params: Any = None, **_: Any) -> Iterator[Page]:
        self.selectors.append((params or {}).get("labelSelector", ""))
        for page in self.pages:
            self.read += 1
            yield page


@pytest.mark.parametrize("read", [lambda edge: edge.list_nodes(["p"]), lambda edge: edge.list_bound_pods("n")])
def test_a_pool_with_an_object_that_cannot_be_read_may_be_in_use(read: Callable[[KubernetesCluster], Any]) -> None:
    with pytest.raises(Unreadable, match="cannot be read, so it may be in use"):
        read(KubernetesCluster(Pages(Page(items=[msgspec.Raw(b'{"metadata": {"uid": 7}}')]))))


def test_a_rayjob_keeps_the_cluster_that_it_made_and_not_that_of_its_namesake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = {"metadata": {"name": "j", "uid": "u"}, "status": {"jobDeploymentStatus": "Complete"}}
    monkeypatch.setattr(KubernetesApi, "get", lambda *_: body)
    parents = [ObjectName(kind="RayJob", namespace="default", name="j", uid=uid) for uid in "uv"]

    assert [bool(open_edge("http://127.0.0.1:9").explain_parent(each)) for each in parents] == [True, False]


A_AND_B = {("default", "a"), ("default", "b")}


def test_a_list_of_workloads_that_costs_more_pages_than_names_is_broken_off() -> None:
    others = [msgspec.Raw(b'{"metadata": {"name": "other", "namespace": "default"}}')] * PAGE_SIZE
    api = Pages(*[Page(items=others)] * 9)

    assert KubernetesCluster(api).list_workloads("JobSet", A_AND_B) == []
    assert api.read == 2


def test_a_listed_workload_that_cannot_be_read_is_left_out() -> None:
    good = msgspec.Raw(b'{"metadata": {"name": "a", "namespace": "default", "uid": "u"}}')
    bad = msgspec.Raw(b'{"metadata": {"name": "b", "namespace": "default", "uid": "v"}, "spec": 3}')
    api = Pages(Page(items=[bad, good]))

    assert [each.name for each in KubernetesCluster(api).list_workloads("Job", A_AND_B)] == ["a"]


def test_the_nodes_of_many_pools_are_asked_for_a_hundred_pools_at_a_time() -> None:
    api = Pages()
    KubernetesCluster(api).list_nodes([f"p{at}" for at in range(150)])

    assert [each.count(",") + 1 for each in api.selectors] == [100, 50]


def say(edge: KubernetesCluster, message: str, about: str = "") -> None:
    """Write a warning about the pod with the UID `u-1`."""
    pod = ObjectName(kind="Pod", namespace="default", name="p", uid="u-1")
    words = {"reason": "NodePoolRefused", "message": message, "about": about or message}
    edge.write_notice(Notice(subject=pod, warning=True, **words))


def list_events(url: str, words: str) -> list[Body]:
    """Return the Events about that pod whose message has these words."""
    events: list[Body] = ask("GET", f"{url}{NAMESPACE}/events")["items"]
    return [each for each in events if each["involvedObject"].get("uid") == "u-1" and words in each["message"]]


def test_what_is_said_again_with_other_words_changes_one_event(cluster_url: str) -> None:
    """Two writers, and the scheduler's changing words, leave one Event for a reason and a pool."""
    first, second = open_edge(cluster_url), open_edge(cluster_url)

    say(first, "0/3 nodes", about="paused p-0")
    say(second, "0/4 nodes", about="paused p-0")
    say(second, "0/4 nodes", about="paused p-1")

    messages = [each["message"] for each in list_events(cluster_url, "nodes")]
    assert messages == ["0/4 nodes", "0/4 nodes"]


def test_a_notice_is_an_event_on_its_object_with_the_time_of_the_last_writing(cluster_url: str) -> None:
    clock = StepClock(NOW)
    cluster = open_edge(cluster_url, clock)
    say(cluster, "wrong topology")
    clock.pause(60)
    say(cluster, "wrong topology")

    (event,) = list_events(cluster_url, "wrong topology")
    assert (event["type"], event["reason"], event["count"]) == ("Warning", "NodePoolRefused", 1)
    assert (event["source"], event["involvedObject"]["kind"]) == ({"component": "a-test"}, "Pod")
    assert event["firstTimestamp"] == format_time(NOW)
    assert event["lastTimestamp"] == format_time(clock.now())


@pytest.mark.parametrize(
    "read",
    [
        lambda edge: edge.get_workload("JobSet", "default", "j"),
        lambda edge: edge.list_workloads("JobSet", {("default", "j")}),
        lambda edge: edge.get_namespace("default"),
        lambda edge: list(edge.list_accelerator_pods()),
        lambda edge: edge.list_nodes(["n"]),
        lambda edge: edge.list_bound_pods("n"),
    ],
)
def test_an_api_out_of_reach_is_unavailable_and_never_absence(read: Callable[[KubernetesCluster], object]) -> None:
    with pytest.raises(Unavailable):
        read(open_edge("http://127.0.0.1:9"))


def test_a_404_that_is_not_about_the_jobset_is_no_proof_that_it_is_gone(cluster_url: str) -> None:
    """Its absence deletes pools: a wrong address or an uninstalled JobSet must not look like it."""
    astray = open_edge(f"{cluster_url}/wrong/prefix")

    with pytest.raises(KindAbsent, match="cannot tell whether /api/v1/namespaces/default exists"):
        astray.get_namespace("default")
    with pytest.raises(KindAbsent, match=r"cannot tell whether /apis/.*/namespaces/default/jobsets/train exists"):
        astray.get_workload("JobSet", "default", "train")
