"""Our edges accept what is recorded, and say what a person reads in it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from shared.edges.gke import GkePools
from shared.edges.google import classify_refusal
from shared.model.errors import ClusterNotFound, NotFound
from shared.model.pools import NodePool, PoolStatus
from tests.canned import Canned, CannedHttp, open_pools
from tests.recordings.recorded_traffic import COMPUTE, GKE, PUBSUB, Exchange, read_recordings, select

pytestmark = pytest.mark.recordings
POOL_FIELDS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "name": lambda pool: pool["name"],
    "status": lambda pool: PoolStatus[pool["status"]],
    "labels": lambda pool: pool["config"].get("labels", {}),
    "maximum": lambda pool: pool.get("autoscaling", {}).get("maxNodeCount") or pool["initialNodeCount"],
    "machine_type": lambda pool: pool["config"]["machineType"],
    "topology": lambda pool: pool.get("placementPolicy", {}).get("tpuTopology", ""),
    "gpus_per_node": lambda pool: sum(
        int(each["acceleratorCount"]) for each in pool["config"].get("accelerators", [])
    ),
    "group_urls": lambda pool: tuple(pool["instanceGroupUrls"]),
    "spot": lambda pool: pool["config"].get("spot", False),
    "autoscaled": lambda pool: pool.get("autoscaling", {}).get("enabled", False),
    "error": lambda pool: pool.get("statusMessage", ""),
}
"""What a person reads in a recorded node pool, by our name for it."""


def answering(answer: dict[str, Any]) -> GkePools:
    """Return our edge, which gets this answer to everything."""
    canned = Canned(json.dumps(answer).encode(), headers={"Content-Type": "application/json"})
    return open_pools(CannedHttp(lambda _method, _url: canned), GkePools)


def cluster_of(each: Exchange) -> str:
    return "/".join(each.path.split("/")[:6])


def list_wrong(pool: NodePool | None, recorded: dict[str, Any]) -> list[str]:
    return [
        f"{recorded['name']}: {field}: {getattr(pool, field, None)!r}, a person reads {look(recorded)!r}"
        for field, look in POOL_FIELDS.items()
        if getattr(pool, field, None) != look(recorded)
    ]


def test_every_recorded_node_pool_is_read_as_a_person_reads_it() -> None:
    wrong = []
    alone = select(GKE, "nodePools", method="GET", status=200)
    for each in alone:
        wrong += list_wrong(answering(each.answer).get(cluster_of(each), each.answer["name"]), each.answer)
    clusters = select(GKE, "clusters", method="GET", status=200)
    for each in clusters:
        pools = each.answer.get("nodePools", [])
        listed = answering({"nodePools": pools}).list(cluster_of(each))
        wrong += [text for pair in zip(listed, pools, strict=True) for text in list_wrong(*pair)]

    assert wrong == []
    assert (len(alone) >= 90, len(clusters) >= 250) == (True, True)


def test_every_recorded_operation_is_of_a_pool_or_is_left_out() -> None:
    recorded = [each for each in select(GKE) if "operationType" in each.answer]
    for each in recorded:
        location, _, target = each.answer["targetLink"].partition("/clusters/")
        cluster = f"projects/p/locations/{location.rpartition('/')[2]}/clusters/{target.partition('/')[0]}"
        operations = answering({"operations": [each.answer]}).list_operations(cluster)
        read = [(one.pool, one.creates, one.ended, one.error, one.ended_at is not None) for one in operations]
        ended, kind = each.answer["status"] == "DONE", each.answer["operationType"]
        of_a_pool = kind in ("CREATE_NODE_POOL", "DELETE_NODE_POOL")
        wanted = (target.rpartition("/")[2], kind == "CREATE_NODE_POOL", ended, "", ended)
        assert read == [wanted] * of_a_pool, each.name
    assert len(recorded) >= 300


def test_every_recorded_refusal_is_called_what_a_person_calls_it() -> None:
    refusals = [each for each in read_recordings() if each.status >= 400 and each.host in (GKE, COMPUTE, PUBSUB)]
    for each in refusals:
        error = classify_refusal(each.status, json.dumps(each.answer).encode())
        assert each.status == 404, each.name
        assert type(error) is (ClusterNotFound if each.kind == "clusters" else NotFound), each.name
        assert each.answer.get("error", {}).get("message", "") in str(error), each.name
    assert len(refusals) >= 100
