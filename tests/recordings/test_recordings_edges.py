"""Our edges accept what is recorded, and say what a person reads in it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from shared.edges.gke import GkePools
from shared.edges.google import classify_refusal
from shared.model.errors import ClusterNotFound, Denied, NotFound
from shared.model.pools import NodePool, PoolStatus
from tests.fuzz.canned import Canned, CannedHttp, open_pools
from tests.recordings.recorded_traffic import Exchange, judge, read_recordings

pytestmark = pytest.mark.recordings
GKE, COMPUTE = "container.googleapis.com", "compute.googleapis.com"
POOL_FIELDS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "name": lambda pool: pool["name"],
    "status": lambda pool: PoolStatus[pool["status"]],
    "labels": lambda pool: pool["config"].get("labels", {}),
    "node_count": lambda pool: pool.get("autoscaling", {}).get("maxNodeCount") or pool["initialNodeCount"],
    "machine_type": lambda pool: pool["config"]["machineType"],
    "topology": lambda pool: pool.get("placementPolicy", {}).get("tpuTopology", ""),
    "gpus_per_node": lambda pool: sum(int(each["acceleratorCount"]) for each in _list_accelerators(pool)),
    "group_urls": lambda pool: tuple(pool["instanceGroupUrls"]),
    "spot": lambda pool: pool["config"].get("spot", False),
    "autoscaled": lambda pool: pool.get("autoscaling", {}).get("enabled", False),
    "error": lambda pool: pool.get("statusMessage", ""),
}
"""What a person reads in a recorded node pool, by our name for it."""
ERRORS = {
    (GKE, "clusters", 404): ClusterNotFound,
    (GKE, "nodePools", 404): NotFound,
    (COMPUTE, "", 404): NotFound,
    ("pubsub.googleapis.com", "", 404): NotFound,
    ("logging.googleapis.com", "", 404): NotFound,
    ("monitoring.googleapis.com", "", 404): NotFound,
    ("cloudfunctions.googleapis.com", "", 404): NotFound,
    ("iam.googleapis.com", "", 404): NotFound,
    ("storage.googleapis.com", "", 404): NotFound,
    ("cloudresourcemanager.googleapis.com", "", 403): Denied,
}
"""What a person would call a refusal, by API, what is asked for, and HTTP status."""


def _list_accelerators(pool: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pool["config"].get("accelerators", [])
    return found


def answering(answer: dict[str, Any], status: int = 200) -> GkePools:
    """Return our edge, which gets this answer to everything."""
    body = json.dumps(answer).encode()
    return open_pools(
        CannedHttp(lambda _method, _url: Canned(body, status, {"Content-Type": "application/json"})), GkePools
    )


def select(host: str, kind: str = "", status: int = 200) -> list[Exchange]:
    return [
        each
        for each in read_recordings()
        if (each.host, each.status) == (host, status) and (not kind or each.kind == kind)
    ]


def cluster_of(each: Exchange) -> str:
    return "/".join(each.path.split("/")[:6])


def test_every_recorded_node_pool_is_read_as_a_person_reads_it() -> None:
    read = judge(each for each in select(GKE, "nodePools") if each.method == "GET")
    clusters = judge(each for each in select(GKE, "clusters") if each.method == "GET")

    found = [(each.name, answering(each.answer).get(cluster_of(each), each.answer["name"])) for each in read]
    wrong = _list_wrong((name, pool, each.answer) for (name, pool), each in zip(found, read, strict=True))
    for each in clusters:
        pools = each.answer.get("nodePools", [])
        listed = answering({"nodePools": pools}).list(cluster_of(each))
        wrong += _list_wrong((each.name, *pair) for pair in zip(listed, pools, strict=True))

    assert wrong == []
    assert (len(read) >= 90, len(clusters) >= 250) == (True, True)


def _list_wrong(read: Any) -> list[str]:
    return [
        f"{name}: {field}: {getattr(ours, field)!r}, a person reads {look(recorded)!r}"
        for name, ours, recorded in read
        for field, look in POOL_FIELDS.items()
        if not isinstance(ours, NodePool) or getattr(ours, field) != look(recorded)
    ]


def test_every_recorded_operation_is_of_a_pool_or_is_left_out() -> None:
    told = judge(each for each in read_recordings() if each.host == GKE and "operationType" in each.answer)
    wrong = []
    for each in told:
        location, _, target = each.answer["targetLink"].partition("/clusters/")
        cluster = f"projects/p/locations/{location.rpartition('/')[2]}/clusters/{target.partition('/')[0]}"
        found = answering({"operations": [each.answer]}).list_operations(cluster)
        made = [(one.pool, one.creates, one.ended, one.error, one.ended_at is not None) for one in found]
        ended, kind = each.answer["status"] == "DONE", each.answer["operationType"]
        read = kind in ("CREATE_NODE_POOL", "DELETE_NODE_POOL")
        if made != [(target.rpartition("/")[2], kind == "CREATE_NODE_POOL", ended, "", ended)] * read:
            wrong.append(f"{each.name}: {made}")

    assert wrong == []
    assert len(told) >= 300


def test_every_recorded_refusal_is_called_what_a_person_calls_it() -> None:
    refusals = [each for each in read_recordings() if each.status >= 400]
    wrong, known = [], []
    for each in refusals:
        kinds = ((each.host, each.kind, each.status), (each.host, "", each.status))
        wanted = next((ERRORS[kind] for kind in kinds if kind in ERRORS), None)
        if wanted is None:
            continue
        known.append(each)
        error = classify_refusal(each.status, json.dumps(each.answer).encode())
        message = each.answer.get("error", {}).get("message", "")
        if type(error) is not wanted or message not in str(error):
            wrong.append(f"{each.name}: {type(error).__name__}: {error}")

    assert wrong == []
    assert len(judge(known)) >= 150


def test_an_absent_pool_is_none_and_an_absent_cluster_is_an_error() -> None:
    for each in select(GKE, "nodePools", 404):
        assert answering(each.answer, 404).get(cluster_of(each), "p") is None, each.name
    for each in select(GKE, "clusters", 404):
        with pytest.raises(ClusterNotFound):
            answering(each.answer, 404).list(cluster_of(each))
