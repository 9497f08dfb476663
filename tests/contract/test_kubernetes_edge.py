"""Our edge to a cluster against the embedded Kubernetes: what is read, what is left out, what is written."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from shared.core import labels
from shared.core.demand import Demand, read_demand
from shared.core.errors import (
    Denied,
    InvalidRequest,
    ProvisionerError,
    StaleView,
    Throttled,
    Unavailable,
)
from shared.core.kinds import jobset as jobset_keys
from shared.core.ports import Notice
from shared.core.settings import ClusterSettings, Settings
from shared.edges.cluster import KubernetesCluster
from shared.edges.kubernetes_api import Connection, Expired, KubernetesApi, Unreadable
from tests.contract.stand_ins import ask, stand_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from shared.core.workloads import PodView

PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
POOL = "pool-of-ours"
CLUSTER = "projects/p/locations/us-east5/clusters/c"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with stand_in(tmp_path_factory.mktemp("cluster"), "local.cluster", "serve", "--speed", "30") as ports:
        yield ports["url"]


@pytest.fixture(scope="module")
def cluster(url: str) -> KubernetesCluster:
    return KubernetesCluster(KubernetesApi(Connection(url=url)), component="a-test")


def eventually(read: Callable[[], Any]) -> Any:
    """Return the first reading that is not empty; controllers and the scheduler need a moment."""
    give_up_at = time.monotonic() + 90
    while not (found := read()):
        assert time.monotonic() < give_up_at, "nothing came"
        time.sleep(0.05)
    return found


def a_jobset(name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"limits": {labels.TPU_RESOURCE: "4"}}}
    spec = {
        "nodeSelector": {labels.ACCELERATOR: "tpu-v6e-slice", labels.TOPOLOGY: "2x4"},
        "containers": [container],
        "restartPolicy": "Never",
    }
    job = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": {"spec": spec}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"replicatedJobs": [{"name": "workers", "replicas": 2, "template": {"spec": job}}]},
    }


@pytest.fixture(scope="module")
def leaders(url: str, cluster: KubernetesCluster) -> list[PodView]:
    """The leader pods of a JobSet of two slices, once the scheduler has called them unschedulable."""
    ask("POST", f"{url}{JOBSETS}", a_jobset("train"))

    def both_unschedulable() -> list[PodView]:
        found = [pod for pod in cluster.list_waiting_leaders() if pod.unschedulable]
        return found if len(found) == 2 else []

    found: list[PodView] = eventually(both_unschedulable)
    return found


def test_what_is_not_there_is_none(cluster: KubernetesCluster) -> None:
    assert cluster.get_pod("default", "no-such-pod") is None
    assert cluster.get_workload("JobSet", "default", "no-such-jobset") is None
    assert cluster.get_workload("JobSet", "no-such-namespace", "no-such-jobset") is None
    assert cluster.get_namespace_labels("no-such-namespace") == {}


def test_the_labels_of_a_namespace_are_read(cluster: KubernetesCluster) -> None:
    assert cluster.get_namespace_labels("default") == {"kubernetes.io/metadata.name": "default"}


def test_only_the_leaders_that_wait_are_listed(leaders: list[PodView]) -> None:
    assert sorted(pod.controller_name for pod in leaders) == ["train-workers-0", "train-workers-1"]
    assert all(pod.completion_index == "0" and not pod.node_name for pod in leaders)
    assert {pod.template.chips for pod in leaders} == {4}


def test_the_other_pods_of_slices_that_wait_are_listed_apart(
    leaders: list[PodView], cluster: KubernetesCluster
) -> None:
    def both() -> list[PodView]:
        found = list(cluster.list_waiting_followers())
        return found if len(found) == len(leaders) else []

    found: list[PodView] = eventually(both)

    assert sorted(pod.controller_name for pod in found) == ["train-workers-0", "train-workers-1"]
    assert all(pod.completion_index == "1" and not pod.node_name for pod in found)


def test_a_leader_and_its_jobset_are_read_as_a_demand(leaders: list[PodView], cluster: KubernetesCluster) -> None:
    pod = cluster.get_pod("default", leaders[0].name)
    jobset = cluster.get_workload("JobSet", "default", "train")

    assert pod == leaders[0]
    assert jobset is not None
    assert (jobset.name, jobset.terminal, jobset.suspended, jobset.managed_elsewhere) == (
        "train",
        "",
        False,
        False,
    )
    use = Settings(clusters={CLUSTER: ClusterSettings(endpoint="http://h", zone="us-east5-b")})
    demand = read_demand(CLUSTER, pod, jobset, use) if pod else None
    assert isinstance(demand, Demand)
    assert (demand.shape.machine_type, demand.shape.node_count) == ("ct6e-standard-4t", 2)
    assert demand.claim.owner_uid == jobset.uid
    assert demand.claim.slice_key == f"default/{leaders[0].controller_name}"


def a_pod(name: str, node: str, **change: Any) -> dict[str, Any]:
    resources = {"limits": {labels.TPU_RESOURCE: "4"}}
    return {
        "metadata": {"name": name, **change},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i", "resources": resources}]},
    }


def owned_by(kind: str) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "u", "controller": True}
    return {"ownerReferences": [owner]}


@pytest.fixture(scope="module")
def pool(url: str) -> str:
    """Two nodes of one pool and one of another, with pods of every kind on them."""
    for node, home in (("n1", POOL), ("n2", POOL), ("n3", "another-pool")):
        ask("POST", f"{url}/api/v1/nodes", {"metadata": {"name": node, "labels": {labels.NODE_POOL: home}}})
    ask("POST", f"{url}{PODS}", a_pod("own", "n1", labels={jobset_keys.JOBSET_NAME_ON_POD: "train"}))
    ask("POST", f"{url}{PODS}", a_pod("bare", "n2"))
    ask("POST", f"{url}{PODS}", a_pod("elsewhere", "n3"))
    ask("POST", f"{url}{PODS}", a_pod("daemon", "n1", **owned_by("DaemonSet")))
    ask("POST", f"{url}{PODS}", a_pod("static", "n1", annotations={"kubernetes.io/config.mirror": "x"}))
    ask("POST", f"{url}{PODS}", a_pod("done", "n2"))
    done = ask("GET", f"{url}{PODS}/done")
    done["status"]["phase"] = "Succeeded"
    ask("PUT", f"{url}{PODS}/done/status", done)
    ask("POST", f"{url}{PODS}", a_pod("ending", "n2", finalizers=["example.com/held"]))
    ask("DELETE", f"{url}{PODS}/ending")
    return POOL


def test_the_pods_that_would_lose_their_node_are_listed_and_no_others(
    pool: str, cluster: KubernetesCluster
) -> None:
    found = {pod.name: pod for pod in cluster.list_pool_pods(pool)}

    assert sorted(found) == ["bare", "ending", "own"]
    assert (found["own"].workload, found["own"].chips) == ("train", 4)
    assert (found["bare"].kind, found["bare"].workload, found["bare"].deleting_since) == ("Pod", "bare", None)
    assert found["ending"].deleting_since is not None


def test_a_pool_without_nodes_has_no_pods(cluster: KubernetesCluster) -> None:
    assert cluster.list_pool_pods("no-such-pool") == []


def test_a_notice_is_written_once_and_counted_up_only_when_it_is_old(url: str, cluster: KubernetesCluster) -> None:
    def notice(message: str) -> Notice:
        return Notice(
            kind="Pod",
            namespace="default",
            name="p",
            uid="u-1",
            reason="NodePoolRefused",
            message=message,
            warning=True,
        )

    def written_so_far() -> dict[str, Any]:
        return {
            event["message"]: event
            for event in ask("GET", f"{url}{EVENTS}")["items"]
            if event["involvedObject"].get("uid") == "u-1"
        }

    for message in ("wrong topology", "wrong topology", "wrong topology", "another thing"):
        cluster.write_notice(notice(message))
    events = written_so_far()
    assert {message: event["count"] for message, event in events.items()} == {
        "wrong topology": 1,
        "another thing": 1,
    }
    for event in events.values():
        event["lastTimestamp"] = "2026-01-01T00:00:00Z"
        ask("PUT", f"{url}{EVENTS}/{event['metadata']['name']}", event)
    for _ in range(2):
        cluster.write_notice(notice("wrong topology"))

    written = written_so_far()["wrong topology"]
    assert written["count"] == 2
    assert (written["type"], written["reason"], written["source"]["component"]) == (
        "Warning",
        "NodePoolRefused",
        "a-test",
    )
    assert written["involvedObject"]["kind"] == "Pod"
    assert "2026-01-01T00:00:00Z" < written["firstTimestamp"] <= written["lastTimestamp"]


def test_an_api_out_of_reach_is_unavailable_and_never_absence() -> None:
    nowhere = KubernetesCluster(KubernetesApi(Connection(url="http://127.0.0.1:9")))

    for read in (
        lambda: nowhere.get_pod("default", "p"),
        lambda: nowhere.get_workload("JobSet", "default", "j"),
        lambda: nowhere.get_namespace_labels("default"),
        lambda: list(nowhere.list_waiting_leaders()),
        lambda: list(nowhere.list_waiting_followers()),
        lambda: nowhere.list_pool_pods("n"),
    ):
        with pytest.raises(Unavailable):
            read()


def test_a_404_that_is_not_about_the_jobset_is_no_proof_that_it_is_gone(url: str) -> None:
    """Pools are deleted on its absence: a wrong address, or JobSet not installed, must not look like it."""
    astray = KubernetesCluster(KubernetesApi(Connection(url=f"{url}/wrong/prefix")))

    with pytest.raises(Unavailable, match="whether JobSet default/train exists is unknown"):
        astray.get_workload("JobSet", "default", "train")


class _Refusing(ThreadingHTTPServer):
    """Answers every request alike."""

    daemon_threads = True
    status = 200
    body = b""


class _Answering(BaseHTTPRequestHandler):
    server: _Refusing

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    do_GET = do_POST = _answer  # noqa: N815 -- the names that http.server calls

    def log_message(self, *_args: object) -> None:
        """Say nothing on standard error."""


@pytest.fixture(scope="module")
def refusing() -> Iterator[_Refusing]:
    server = _Refusing(("127.0.0.1", 0), _Answering)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(5)


def status_body(reason: str) -> bytes:
    return json.dumps({"kind": "Status", "reason": reason, "message": "in Kubernetes' words"}).encode()


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, status_body("Unauthorized"), Denied),
        (403, status_body("Forbidden"), Denied),
        (403, b"<html>a proxy's words</html>", Denied),
        (409, status_body("Conflict"), StaleView),
        (410, status_body("Expired"), Expired),
        (422, status_body("Invalid"), InvalidRequest),
        (429, status_body("TooManyRequests"), Throttled),
        (500, status_body("InternalError"), Unavailable),
        (503, b"", Unavailable),
        (302, b"", InvalidRequest),
        (200, b"<html>a login page</html>", Unreadable),
        (200, b'{"metadata": {"name": "\xff"}}', Unreadable),
    ],
)
@pytest.mark.parametrize("what", ["get_pod", "get_workload", "list_waiting_leaders", "list_pool_pods"])
def test_errors_keep_their_class_whatever_is_asked(
    refusing: _Refusing, status: int, body: bytes, kind: type[ProvisionerError], what: str, tmp_path: Path
) -> None:
    refusing.status, refusing.body = status, body
    edge = KubernetesCluster(KubernetesApi(Connection(url=f"http://127.0.0.1:{refusing.server_port}")))
    calls: dict[str, Callable[[], Any]] = {
        "get_pod": lambda: edge.get_pod("default", "p"),
        "get_workload": lambda: edge.get_workload("JobSet", "default", "j"),
        "list_waiting_leaders": lambda: list(edge.list_waiting_leaders()),
        "list_pool_pods": lambda: edge.list_pool_pods("n"),
    }

    with pytest.raises(ProvisionerError) as raised:
        calls[what]()
    assert type(raised.value) is kind
