"""What the engine expects of GKE's node pools: our edge over the fake GKE, and over a socket.

The rows have the errors that an idempotent caller must tell apart:
https://cloud.google.com/kubernetes-engine/docs/troubleshooting/concurrent-operations and public
issue threads.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from shared.edges.cluster import KubernetesCluster
from shared.edges.gke import CLUSTER_SECONDS, open_apis
from shared.edges.google import GoogleAccount
from shared.model import errors, labels
from shared.model.errors import Busy, ClusterNotFound, Throttled, Unavailable
from shared.model.pools import Machines, NodePool, PoolStatus
from shared.settings import ClusterSettings, Credentials
from tests.builders import CLUSTER, NOW, settings
from tests.clocks import StepClock
from tests.contract.gke_world import NO_CLUSTER, Gke, a_body, a_gpu_pool_body, open_edge
from tests.raw_server import Socket, answer

Body = dict[str, Any]
GROUP = "https://www.googleapis.com/compute/v1/projects/p/zones/z/instanceGroupManagers/g"
OF_A_GROUP = NodePool(name="p", status=PoolStatus.RUNNING, group_urls=(GROUP,))
CALLS: dict[str, Callable[[Any, str, Body], object]] = {
    "create": lambda edge, cluster, body: edge.create(cluster, body),
    "delete": lambda edge, cluster, body: edge.delete(cluster, body["name"]),
    "raise": lambda edge, cluster, body: edge.raise_maximum(cluster, body["name"], 5, least=5),
    "lower": lambda edge, cluster, body: edge.lower_maximum(cluster, body["name"], 1),
    "close": lambda edge, cluster, body: edge.lower_maximum(cluster, body["name"], 0),
    "get": lambda edge, cluster, body: edge.get(cluster, body["name"]),
    "list": lambda edge, cluster, _: edge.list(cluster),
    "list_operations": lambda edge, cluster, _: edge.list_operations(cluster),
    "find_channel": lambda edge, cluster, _: edge.find_channel(cluster),
    "read_machines": lambda edge, *_: edge.read_machines(OF_A_GROUP),
}
QUOTA = {"code": "PERMISSION_DENIED", "text": "Insufficient quota", "reason": "INSUFFICIENT_QUOTA_REGIONAL"}
EVENTS: dict[str, Callable[[Gke], object]] = {
    "later": lambda gke: gke.advance(5000),
    "stockout": lambda gke: gke.fault("outcome", kind="stockout"),
    "quota": lambda gke: gke.fault("fail_sync", **QUOTA),
    "work": lambda gke: gke.fault("cluster_busy", seconds=60),
}
LIVES = {
    "from its create to its end": (
        "is absent; create; is PROVISIONING; later; is RUNNING; delete; is STOPPING; later; is absent"
    ),
    "deleted though it is absent": "delete; is absent; raise NotFound",
    "failed, with its name taken": (
        "stockout; create; later; is ERROR; create AlreadyExists; delete; later; create; is PROVISIONING"
    ),
    "running, with its name taken": "create; later; create AlreadyExists; is RUNNING",
    "under work of GKE": (
        "create; create Busy; delete Busy; raise Busy; later; "
        "delete; create Busy; delete Busy; raise Busy; is STOPPING"
    ),
    "refused by quota": "quota; create NoCapacity; is absent",
    "in a cluster on which GKE works, before": "work; create Busy; is absent",
    "in a cluster on which GKE works, after": "create; later; work; delete Busy; raise Busy; is RUNNING",
    "with a maximum": (
        "create; bound 3; later; raise; later; bound 5; lower; later; bound 1; close; later; bound none"
    ),
}
"""What is asked about one pool of GPUs, each with its error, and what happens meanwhile."""


def describe(pool: NodePool | None, what: str) -> str:
    if pool is None:
        return "absent"
    bound = str(pool.maximum) if pool.autoscaled else "none"
    return bound if what == "bound" else str(pool.status)


@pytest.mark.parametrize("steps", LIVES.values(), ids=LIVES)
def test_a_pool_lives_as_the_rules_expect(gke: Gke, steps: str) -> None:
    play_life(gke, steps)


def play_life(gke: Any, steps: str) -> None:
    """Let a pool of the fake GKE, or of the simulator's, live as steps say."""
    body = a_gpu_pool_body()
    for step in steps.split("; "):
        act, _, wanted = step.partition(" ")
        if act in EVENTS:
            EVENTS[act](gke)
        elif act in CALLS and wanted:
            with pytest.raises(getattr(errors, wanted)):
                CALLS[act](gke.edge, CLUSTER, body)
        elif act in CALLS:
            CALLS[act](gke.edge, CLUSTER, body)
        else:
            pool = gke.edge.get(CLUSTER, body["name"])
            assert describe(pool, act) == wanted, step
            assert (pool is not None) == (body["name"] in [each.name for each in gke.edge.list(CLUSTER)]), step


@pytest.mark.parametrize("call", ["create", "get", "list", "delete"])
def test_a_cluster_that_is_not_there_is_never_taken_for_an_empty_one(gke: Gke, call: str) -> None:
    with pytest.raises(ClusterNotFound):
        CALLS[call](gke.edge, NO_CLUSTER, a_body())


@pytest.mark.parametrize("error", ["", "GCE_STOCKOUT"])
def test_operations_are_listed_with_what_became_of_them(gke: Gke, error: str) -> None:
    if error:
        EVENTS["stockout"](gke)
    body = a_body()

    def find() -> list[tuple[bool, bool, bool]]:
        own = [each for each in gke.edge.list_operations(CLUSTER) if each.pool == body["name"]]
        assert all(each.began_at for each in own)
        return sorted((each.creates, each.ended, bool(each.error) and error in each.error) for each in own)

    assert find() == []
    gke.edge.create(CLUSTER, body)
    assert find() == [(True, False, False)]
    gke.advance(5000)
    gke.edge.raise_maximum(CLUSTER, body["name"], 4)
    gke.advance(5000)
    assert find() == [(True, True, bool(error))]
    gke.edge.delete(CLUSTER, body["name"])
    assert find() == [(False, False, False), (True, True, bool(error))]


TIMES = {"gpuSharingConfig": {"gpuSharingStrategy": "TIME_SHARING", "maxSharedClientsPerGpu": "4"}}


@pytest.mark.parametrize(("sharing", "is_read"), [({}, ""), (TIMES, "/TIME_SHARING/4")])
def test_the_gpus_and_machines_of_a_pool_are_read(gke: Gke, sharing: Body, is_read: str) -> None:
    body = a_gpu_pool_body(sharing)
    gke.edge.create(CLUSTER, body)
    gke.advance(5000)
    pool = gke.edge.get(CLUSTER, body["name"])

    assert pool is not None
    assert (pool.gpus_per_node, gke.edge.read_machines(pool)) == (1, Machines(present=1))
    assert pool.sharing == is_read


def test_an_answer_that_is_no_json_is_unavailable(gke: Gke) -> None:
    with pytest.raises(Unavailable, match="cannot be read"):
        open_edge(f"{gke.url}/admin/pools?").get(CLUSTER, "n")


SPOT, RESERVED = {labels.SPOT: "true"}, {labels.RESERVATION_NAME: "r"}


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"selectors": SPOT},
        {"selectors": RESERVED},
        {"selectors": RESERVED | {labels.RESERVATION_PROJECT: "other-project"}},
        {"topology": "2x4", "chips": 8},
        {"accelerator": "tpu7x", "topology": "2x2x2"},
        {"selectors": {labels.FLEX_START: "true"}},  # it starts empty, and limits count what it may grow to
    ],
)
def test_every_kind_of_body_is_accepted_and_read_as_it_was_sent(gke: Gke, shape: Body) -> None:
    body = a_body(settings(allowed_reservations=("r", "other-project/r")), **shape)
    gke.edge.create(CLUSTER, body)
    pool = gke.edge.get(CLUSTER, body["name"])

    assert pool is not None
    read = (pool.labels, pool.machine_type, pool.maximum, pool.gpus_per_node)
    maximum = body.get("autoscaling", {}).get("maxNodeCount", body["initialNodeCount"])
    assert read == (body["config"]["labels"], body["config"]["machineType"], maximum, 0)
    assert pool.owner is not None
    assert pool.topology == body.get("placementPolicy", {}).get("tpuTopology", "")


@pytest.mark.parametrize("step", [20.0, -60.0])
@pytest.mark.parametrize("act", ["create", "delete", "raise", "lower"])
def test_what_rests_on_a_look_is_not_sent_late(act: str, step: float) -> None:
    """Nothing listens there: what is sent fails with other words."""
    edge = open_edge("http://127.0.0.1:9", StepClock(0.0, step))

    with pytest.raises(Unavailable, match="not sent"):
        CALLS[act](edge, CLUSTER, a_body())
    with pytest.raises(Unavailable, match="refused"):
        edge.get(CLUSTER, "p")


# --- each call is one request, whatever its answer becomes: counted at the other side's socket


ROW = b'{"name": "p", "managedInstances": [{"instance": "i", "instanceStatus": "RUNNING"}]}'
GOOD = answer(ROW)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kept", [False, True], ids=["a new connection", "a kept connection"])
def test_a_lost_reply_is_one_call(server: Socket, call: str, kept: bool) -> None:
    edge = open_edge(server.url)
    if kept:
        server.answers = [GOOD, GOOD]
        edge.get(CLUSTER, "p")
        edge.read_machines(OF_A_GROUP)
        server.requests = 0

    with pytest.raises(Unavailable):
        CALLS[call](edge, CLUSTER, a_body())
    assert server.requests == 1


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, "307 Moved\r\nLocation: /again"])
def test_an_answer_that_a_client_may_try_again_is_one_call(server: Socket, call: str, status: int | str) -> None:
    server.answers = [answer(status=str(status))] * 3

    with pytest.raises(Throttled if status == 429 else Unavailable):
        CALLS[call](open_edge(server.url), CLUSTER, a_body())
    assert server.requests == 1


def test_a_refusal_s_words_come_from_the_answer(server: Socket) -> None:
    body = b'{"error": {"code": 400, "status": "FAILED_PRECONDITION", "message": "busy"}}'
    server.answers = [answer(body, "400 Bad Request")]

    with pytest.raises(Busy, match="busy"):
        open_edge(server.url).list(CLUSTER)


def test_an_answer_that_comes_in_drops_ends_with_the_total_deadline(server: Socket) -> None:
    """Each piece comes in time; all of them together do not."""
    server.answers = [[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n{\r\n" * 500_000]]

    with pytest.raises(Unavailable, match="the answer takes more than 30 s"):
        open_edge(server.url, StepClock(0.0, 10.0)).list(CLUSTER)
    assert server.requests == 1


@pytest.mark.parametrize(("exempt", "requests"), [("", 2), ("gke.invalid", 0)])
@pytest.mark.parametrize("call", ["get", "read_machines"])
def test_the_proxy_of_the_environment_is_read_once(
    server: Socket, call: str, exempt: str, requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To read the environment for each request takes a tenth of the CPU of an event."""
    server.answers = [GOOD, GOOD]
    monkeypatch.setenv("HTTP_PROXY", server.url)
    monkeypatch.setenv("NO_PROXY", exempt)
    edge = open_edge("http://gke.invalid")
    for _ in range(2):
        with suppress(Unavailable):  # without the proxy there is no such host
            CALLS[call](edge, CLUSTER, a_body())
        monkeypatch.delenv("HTTP_PROXY", raising=False)

    assert server.requests == requests


PLACES = {
    "dnsEndpointConfig": {"endpoint": "gke-1.us-east5.gke.goog"},
    "ipEndpointsConfig": {"privateEndpoint": "10.0.0.2"},
}
ON = {"releaseChannel": {"channel": "STABLE"}, "controlPlaneEndpointsConfig": PLACES}
ON |= {"name": "c", "masterAuth": {"clusterCaCertificate": "LS0tLS1C"}}
STABLE, OFF = (answer(json.dumps(body).encode()) for body in (ON, {"name": "c", "releaseChannel": {}}))
NAMELESS, BUSY = answer(b"{}"), answer(status="503 Service Unavailable")


def test_a_cluster_is_read_again_in_each_tick_only(server: Socket) -> None:
    server.answers, clock = [STABLE, OFF], StepClock(NOW)
    edge = open_edge(server.url, clock)

    assert [edge.find_channel(CLUSTER) for _ in range(3)] == ["STABLE"] * 3
    clock.pause(CLUSTER_SECONDS)
    assert edge.find_channel(CLUSTER) == "STABLE"
    assert server.requests == 1

    clock.pause(1)
    assert edge.find_channel(CLUSTER) == ""
    assert server.requests == 2


def test_an_answer_that_is_none_is_not_kept(server: Socket) -> None:
    server.answers, edge = [BUSY, NAMELESS, OFF], open_edge(server.url)

    for _ in range(2):
        with pytest.raises(Unavailable):
            edge.find_channel(CLUSTER)
    assert edge.find_channel(CLUSTER) == ""


def test_gke_says_where_the_kubernetes_api_is_and_who_signs_it(server: Socket) -> None:
    server.answers, edge = [STABLE], open_edge(server.url)

    assert edge.locate(CLUSTER) == ("https://gke-1.us-east5.gke.goog", "")
    assert edge.locate(CLUSTER, private=True) == ("https://10.0.0.2", "LS0tLS1C")


@pytest.mark.parametrize(("private", "way"), [(False, "DNS endpoint"), (True, "private address")])
def test_a_cluster_without_such_an_endpoint_is_named(server: Socket, private: bool, way: str) -> None:
    server.answers = [OFF]

    with pytest.raises(Unavailable, match=f"cluster {CLUSTER} has no {way}"):
        open_edge(server.url).locate(CLUSTER, private=private)


def test_a_cluster_that_is_gone_is_never_taken_for_an_object_that_is(server: Socket) -> None:
    server.answers = [answer(status="404 Not Found")]
    apis = open_apis({CLUSTER: ClusterSettings()}, open_edge(server.url), GoogleAccount(Credentials.ANONYMOUS))

    with pytest.raises(ClusterNotFound):
        KubernetesCluster(apis[CLUSTER]).get_workload("JobSet", "team-a", "train")
