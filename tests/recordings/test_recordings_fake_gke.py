"""The fake GKE answers recorded requests as GKE did.

The requests of a file are sent to it in their order. Files that were written with Config
Connector's mock judge nothing here: they say what its authors assume, as our stand-in does.
"""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from standins.google.tests.fakegke_worlds import ServedWorld, serving_world
from tests.recordings.answer_comparison import compare, gather, is_below
from tests.recordings.recorded_traffic import Exchange, judge, read_recordings

pytestmark = pytest.mark.recordings
GKE, COMPUTE = "container.googleapis.com", "compute.googleapis.com"
LONG_SECONDS = 4000.0
STATES = ["PENDING", "RUNNING", "DONE"]
"""Of an operation, in their order. GKE answers with either of the first two, the fake with the
first; nothing of ours reads it."""
ALLOWED_IN_A_POOL = {
    **dict.fromkeys(
        (
            *("config.nodeImageConfig", "config.kubeletConfig", "config.effectiveCgroupMode"),
            *("config.windowsNodeConfig", "kubeletCertInfo", "networkConfig", "podIpv4CidrSize"),
        ),
        "nothing reads it",
    )
}
_NOT_READ_OF_A_GROUP = (
    "currentActions",
    *("creationTimestamp", "fingerprint", "id", "instanceLifecyclePolicy", "instanceTemplate", "satisfiesPzi"),
    *("satisfiesPzs", "serviceAccount", "standbyPolicy", "status.allInstancesConfig", "status.stateful"),
    *("targetStoppedSize", "targetSuspendedSize", "targetSizePolicy", "updatePolicy", "versions"),
)
ALLOWED = {
    "clusters": {
        "clusterIpv4Cidr": "an address",
        "servicesIpv4Cidr": "an address",
        "controlPlaneEndpointsConfig": "an address, which is open here for gcloud",
        "endpoint": "an address",
        "releaseChannel.channel": "the fake's setting `release_channel` says it",
        **{f"nodePools[].{path}": why for path, why in ALLOWED_IN_A_POOL.items()},
    },
    "nodePools": ALLOWED_IN_A_POOL,
    "instanceGroupManagers": dict.fromkeys(_NOT_READ_OF_A_GROUP, "nothing reads it"),
}
"""Why a field of an answer may differ, by what is asked for."""
ALLOWED_EVERYWHERE = {
    "progress": "how far an operation is, which nothing reads",
    "error.details": "the recorder leaves them out: they may have names of its authors",
}


class Replay:
    """One file's requests, sent to the fake."""

    def __init__(self, world: ServedWorld, http: httpx.Client) -> None:
        self._world, self._http = world, http
        self._operation = ""
        self._groups: dict[str, str] = {}
        self._changed: dict[str, str] = {}
        self._zones: list[str] | None = None
        self.judges: list[Exchange] = []
        self.differences: list[tuple[str, str]] = []

    def play_all(self, exchanges: list[Exchange]) -> None:
        """Play a file's requests. GKE chooses the zones of a cluster, and so they are given."""
        answers = (each.answer for each in exchanges if each.kind == "clusters")
        self._zones = next((answer["locations"] for answer in answers if "locations" in answer), None)
        self._world.gke.world.clusters.clear()
        for each in exchanges:
            self._play(each)

    def _play(self, each: Exchange) -> None:
        """Send a request, if the fake serves it, and keep what differs."""
        if (each.host, each.kind, each.method) == (GKE, "clusters", "POST"):
            self._make_cluster(each)
        elif each.host == GKE and each.kind == "clusters" and each.method == "GET":
            self._judge(each, self._send(each), only_ours=True)
        elif each.host == GKE and each.kind == "clusters":
            self._forget({"autoscaling": "the fake takes no calls that change clusters, and ours makes none"})
        elif each.host == GKE and each.kind == "nodePools":
            self._play_pool(each)
        elif each.kind == "operations" and "/nodePools/" in each.answer["targetLink"] and self._operation:
            self._play_operation(each)
        elif each.host == COMPUTE and each.kind == "instanceGroupManagers" and each.method == "GET":
            ours = self._groups.get(each.path)
            if ours:
                self._judge(each, self._http.get(f"/compute/v1/{ours}"))

    def _make_cluster(self, each: Exchange) -> None:
        """Make the cluster, which the fake has no call for, with the pool that GKE makes."""
        cluster = each.body["cluster"]
        _, project, _, location, _ = each.path.split("/")
        self._world.gke.add_cluster(project, location, cluster["name"], self._zones)
        pool = {"name": "default-pool", "initialNodeCount": cluster.get("initialNodeCount", 0)}
        pool |= {"config": cluster["nodeConfig"]} if "nodeConfig" in cluster else {}
        pool |= cluster.get("nodePools", [{}])[0]
        parent = f"/v1/{each.path}/{cluster['name']}"
        self._http.post(f"{parent}/nodePools", json={"nodePool": pool}).raise_for_status()
        self._world.advance(LONG_SECONDS)

    def _play_pool(self, each: Exchange) -> None:
        answer = self._send(each)
        if each.method == "PUT" and answer.status_code == httpx.codes.NOT_IMPLEMENTED:
            why = "the fake makes no such update, with its further node; ours asks for none"
            self._forget(dict.fromkeys(("config", "currentNodeCount"), why))
            return
        self._judge(each, answer, leave_out=("status",) if each.method != "GET" else ())
        if each.method != "GET":
            self._operation = answer.json()["name"]
            begin = [each.answer["status"], answer.json()["status"]]
            self.differences += [(each.name, f"it begins as {one}") for one in begin if one not in STATES[:2]]

    def _forget(self, changed: dict[str, str]) -> None:
        """Note what a request that the fake does not serve has changed; it has no operation."""
        self._changed |= changed
        self._operation = ""

    def _play_operation(self, each: Exchange) -> None:
        url = f"/v1/{each.path.rpartition('/')[0]}/{self._operation}"
        first = self._http.get(url).json()["status"]
        self._world.advance(LONG_SECONDS)
        if first not in STATES[:2]:
            self.differences.append((each.name, f"it begins as {first}"))
        self._judge(each, self._http.get(url))

    def _send(self, each: Exchange) -> httpx.Response:
        url = f"/v1/{each.path}"
        return self._http.request(each.method, url, params=each.query, json=each.body or None)

    def _judge(
        self, each: Exchange, answer: httpx.Response, *, only_ours: bool = False, leave_out: tuple[str, ...] = ()
    ) -> None:
        self.judges.append(each)
        ours = answer.json()
        self._note_groups(each.answer, ours)
        recorded = {key: each.answer[key] for key in each.answer if not only_ours or key in ours}
        allowed = {**ALLOWED_EVERYWHERE, **ALLOWED.get(each.kind, {}), **self._changed}
        allowed |= {f"nodePools[].{path}": why for path, why in self._changed.items()}
        found = [] if answer.status_code == each.status else [f"status: {each.status}, {answer.status_code}"]
        found += [text for text in compare(recorded, ours, allowed) if text.partition(":")[0] not in leave_out]
        self.differences += [(each.name, text) for text in found]

    def _note_groups(self, recorded: dict[str, Any], ours: dict[str, Any]) -> None:
        """Remember which of our groups stands for which recorded one."""
        mine = {pool["name"]: pool for pool in ours.get("nodePools", [ours]) if "instanceGroupUrls" in pool}
        for pool in recorded.get("nodePools", [recorded]):
            if pool.get("name") in mine:
                urls = zip(pool["instanceGroupUrls"], mine[pool["name"]]["instanceGroupUrls"], strict=False)
                self._groups |= {one.partition("/v1/")[2]: other.partition("/v1/")[2] for one, other in urls}


def test_each_recorded_request_is_answered_as_gke_answered_it() -> None:
    files: dict[str, list[Exchange]] = {}
    for each in read_recordings():
        if each.file.startswith("container/") and not each.mocked:
            files.setdefault(each.file, []).append(each)
    differences, judges = [], 0
    with serving_world() as world, httpx.Client(base_url=world.rest) as http:
        for exchanges in files.values():
            replay = Replay(world, http)
            replay.play_all(exchanges)
            differences += replay.differences
            judges += len(judge(replay.judges))

    assert gather(differences) == {}
    assert judges >= 150


def test_an_absent_instance_group_is_refused_as_compute_engine_refuses_it() -> None:
    absent = judge(
        each
        for each in read_recordings()
        if (each.host, each.kind, each.status) == (COMPUTE, "instanceGroupManagers", httpx.codes.NOT_FOUND)
        and "/zones/" in each.path  # node pools have groups of zones only
    )
    with serving_world() as world:
        ours = [httpx.get(f"{world.rest}/compute/v1/{each.path}") for each in absent]

    assert [answer.status_code for answer in ours] == [each.status for each in absent]
    pairs = zip(absent, ours, strict=True)
    assert gather((one.name, body) for one, two in pairs for body in compare(one.answer, two.json(), {})) == {}
    assert absent


def test_every_allowance_is_needed() -> None:
    """A field that is recorded nowhere needs no reason to differ."""
    for kind, allowed in ALLOWED.items():
        answers = [each.answer for each in read_recordings() if each.kind == kind and not each.mocked]
        paths = {path for answer in answers for path in _paths(answer)}
        assert [path for path in allowed if not any(is_below(one, [path]) for one in paths)] == [], kind


def _paths(value: Any, path: str = "") -> Iterator[str]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _paths(below, f"{path}.{key}".removeprefix("."))
    elif isinstance(value, list):
        for below in value:
            yield from _paths(below, f"{path}[]")
