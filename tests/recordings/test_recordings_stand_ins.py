"""The stand-ins of GKE, Compute Engine and Pub/Sub answer recorded requests as Google did.

The requests of a file are sent in their order. Of GKE, files that were written with Config
Connector's mock judge nothing here: they say what its authors assume, as our stand-in does.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import httpx
import pytest

from standins.google.tests.fakegke_worlds import ServedWorld, serving_google, serving_world
from tests.recordings.answer_comparison import compare, mask
from tests.recordings.recorded_traffic import COMPUTE, GKE, PUBSUB, Exchange, read_recordings, select

pytestmark = pytest.mark.recordings
LONG_SECONDS = 4000.0
NOT_READ_OF_A_POOL = (
    *("config.nodeImageConfig", "config.kubeletConfig", "config.effectiveCgroupMode"),
    *("config.windowsNodeConfig", "kubeletCertInfo", "networkConfig", "podIpv4CidrSize"),
)
ALLOWED = {
    "clusters": (
        # An address; the last one is open here for gcloud.
        *("clusterIpv4Cidr", "servicesIpv4Cidr", "endpoint", "controlPlaneEndpointsConfig"),
        "releaseChannel.channel",  # the fake's setting `release_channel` says it
        *(f"nodePools[].{path}" for path in NOT_READ_OF_A_POOL),
    ),
    "nodePools": NOT_READ_OF_A_POOL,
    "instanceGroupManagers": (
        *("currentActions", "creationTimestamp", "fingerprint", "id", "instanceLifecyclePolicy"),
        *("instanceTemplate", "satisfiesPzs", "serviceAccount", "standbyPolicy"),
        *("status.allInstancesConfig", "status.stateful", "targetStoppedSize", "targetSuspendedSize"),
        *("targetSizePolicy", "updatePolicy", "versions"),
    ),
}
"""The fields of an answer that may differ, by what is asked for. Nothing reads the others."""
CHANGED = [
    f"{place}{name}" for place in ("", "nodePools[].") for name in ("autoscaling", "config", "currentNodeCount")
]
"""What requests change that the fake does not serve; ours sends none."""


def play(
    world: ServedWorld, http: httpx.Client, exchanges: list[Exchange]
) -> Iterator[tuple[Exchange, httpx.Response, list[str]]]:
    """Send a file's requests in a cluster of their own; yield our answers, and what may differ."""
    world.gke.world.clusters.clear()
    # GKE chooses the zones of a cluster.
    answers = (each.answer for each in exchanges if each.kind == "clusters")
    zones = next((answer["locations"] for answer in answers if "locations" in answer), None)
    operation, changed, groups = "", list[str](), dict[str, str]()
    for each in exchanges:
        if (each.host, each.kind, each.method) == (GKE, "clusters", "POST"):
            make_cluster(world, http, each, zones)
            continue
        if each.host == GKE and each.kind in ("clusters", "nodePools"):
            answer = http.request(each.method, f"/v1/{each.path}", params=each.query, json=each.body or None)
            if answer.status_code == httpx.codes.NOT_IMPLEMENTED:
                operation, changed = "", CHANGED
                continue
            operation = operation if each.method == "GET" else answer.json()["name"]
        elif each.kind == "operations" and "/nodePools/" in each.answer["targetLink"] and operation:
            world.advance(LONG_SECONDS)
            answer = http.get(f"/v1/{each.path.rpartition('/')[0]}/{operation}")
        elif each.host == COMPUTE and each.method == "GET" and each.path in groups:
            answer = http.get(f"/compute/v1/{groups[each.path]}")
        else:
            continue
        groups |= pair_groups(each.answer, answer.json())
        yield each, answer, changed


def make_cluster(world: ServedWorld, http: httpx.Client, each: Exchange, zones: list[str] | None) -> None:
    """Make the cluster, which the fake has no call for, with the pool that GKE makes."""
    cluster = each.body["cluster"]
    _, project, _, location, _ = each.path.split("/")
    world.gke.add_cluster(project, location, cluster["name"], zones)
    pool = {"name": "default-pool", "initialNodeCount": cluster.get("initialNodeCount", 0)}
    pool |= {"config": cluster["nodeConfig"]} if "nodeConfig" in cluster else {}
    pool |= cluster.get("nodePools", [{}])[0]
    parent = f"/v1/{each.path}/{cluster['name']}"
    http.post(f"{parent}/nodePools", json={"nodePool": pool}).raise_for_status()
    world.advance(LONG_SECONDS)


def pair_groups(recorded: dict[str, Any], ours: dict[str, Any]) -> dict[str, str]:
    """Return which of our groups stands for which recorded one."""
    theirs = {
        pool.get("name"): pool.get("instanceGroupUrls", []) for pool in recorded.get("nodePools", [recorded])
    }
    mine = {pool.get("name"): pool.get("instanceGroupUrls", []) for pool in ours.get("nodePools", [ours])}
    pairs = (pair for name in theirs for pair in zip(theirs[name], mine.get(name, []), strict=False))
    return {one.partition("/v1/")[2]: other.partition("/v1/")[2] for one, other in pairs}


def judge(each: Exchange, answer: httpx.Response, changed: list[str]) -> list[str]:
    """Return how our answer differs from the recorded one, where that is not allowed."""
    recorded, ours = each.answer, answer.json()
    if each.kind == "clusters":  # of a cluster the fake has but what somebody reads
        recorded = {key: recorded[key] for key in recorded if key in ours}
    details = "error.details"  # they may have names of the authors, so the recorder leaves them out
    sides = ((each.status, recorded), (answer.status_code, ours))
    one, other = ({"HTTP status": status, **_level(body)} for status, body in sides)
    return compare(one, other, (details, *changed, *ALLOWED.get(each.kind, ())))


def _level(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer in which an operation under way has one state, and not either of two."""
    under_way = "operationType" in answer and answer["status"] in ("PENDING", "RUNNING")
    return answer | ({"status": "under way"} if under_way else {})


def test_each_recorded_request_is_answered_as_gke_answered_it() -> None:
    of_google = (each for each in read_recordings() if each.file.startswith("container/") and not each.mocked)
    differences, judged = dict[str, str](), 0
    with serving_world() as world, httpx.Client(base_url=world.rest) as http:
        for _, exchanges in groupby(of_google, key=lambda each: each.file):
            for each, answer, changed in play(world, http, list(exchanges)):
                differences |= {mask(text): each.name for text in judge(each, answer, changed)}
                judged += 1

    assert differences == {}
    assert judged >= 250


def test_an_absent_instance_group_is_refused_as_compute_engine_refuses_it() -> None:
    # Node pools have groups of zones only.
    absent = [each for each in select(COMPUTE, "instanceGroupManagers", status=404) if "/zones/" in each.path]
    with serving_world() as world:
        for each in absent:
            ours = httpx.get(f"{world.rest}/compute/v1/{each.path}")
            assert (ours.status_code, compare(each.answer, ours.json(), ())) == (404, []), each.name
    assert absent


# --- Pub/Sub


NOT_SERVED = (
    "schemaSettings",
    "noWrapper",
    "enableMessageOrdering",
    "enableExactlyOnceDelivery",
    "retainAckedMessages",
)
"""Features that the stand-in refuses by name. They are left out of requests and answers."""
EXPORTS = ("bigqueryConfig", "cloudStorageConfig")
"""The same; their subscriptions are left out, because other terms of them differ too."""
LATE = "a subscription is seen by others a moment after the answer to its creation"
"""So says Pub/Sub; the stand-in shows it at once, because nothing of ours looks so early."""


def strip(value: Any) -> Any:
    """Return a JSON value without the features that the stand-in does not serve."""
    if isinstance(value, list):
        return [strip(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {key: strip(below) for key, below in value.items() if key not in NOT_SERVED}
    if isinstance(kept.get("updateMask"), str):
        kept["updateMask"] = ",".join(path for path in kept["updateMask"].split(",") if path not in NOT_SERVED)
    return kept


def test_each_recorded_request_is_answered_as_pubsub_answered_it() -> None:
    recorded = select(PUBSUB, "topics", "subscriptions")
    exports = {(each.file, each.path) for each in recorded if any(feature in each.answer for feature in EXPORTS)}
    exchanges = [each for each in recorded if (each.file, each.path) not in exports]
    differences, changed, created = dict[str, str](), set[str](), ""
    with serving_google(pubsub=True) as google, httpx.Client(base_url=google.ports["rest"]) as http:
        for each in exchanges:
            body = strip(each.body)
            answer = http.request(each.method, f"/{each.version}/{each.path}", params=each.query, json=body)
            if (each.method, each.kind, each.status, each.path) == ("GET", "subscriptions", 404, created):
                continue  # LATE
            created = each.path if each.method == "PUT" else ""
            if answer.headers["content-type"].startswith("text/html"):
                changed.add(each.path)  # a method that is not served
            elif each.path not in changed:
                ours = {"HTTP status": answer.status_code, **answer.json()}
                found = compare({"HTTP status": each.status, **strip(each.answer)}, ours, ())
                differences |= {mask(text): each.name for text in found}

    assert differences == {}
    assert len(exchanges) >= 60
