"""In which zones a PersistentVolumeClaim's volume can be used, by what Kubernetes says of it."""

from typing import Any

import msgspec
import pytest

from shared.edges.cluster import ZONE_KEYS, read_disk
from shared.edges.connection import Connection
from shared.edges.kubernetes import KubernetesApi
from shared.model.errors import Denied, NotFound
from shared.model.workloads import Disk
from tests.rows import rows

CLAIM = "/api/v1/namespaces/team-a/persistentvolumeclaims/data"
VOLUME = "/api/v1/persistentvolumes/pv-1"
CLASS = "/apis/storage.k8s.io/v1/storageclasses/fast"
MADE = "2027-01-15T08:00:00Z"
BOUND = {CLAIM: {"spec": {"volumeName": "pv-1", "storageClassName": "fast"}}}
UNBOUND = {CLAIM: {"spec": {"storageClassName": "fast"}}}
Json = dict[str, Any]


class Answering(KubernetesApi):
    """Answers reads from a table of paths, where some are errors, and keeps what was asked."""

    def __init__(self, objects: dict[str, Any]) -> None:
        super().__init__(Connection(url="http://127.0.0.1:9"))
        self.objects, self.asked = objects, list[str]()

    def get(self, path: str, kind: Any, params: Any = None) -> Any:
        """Return the object of a path."""
        assert not params
        self.asked.append(path)
        found = self.objects.get(path, NotFound(f"404: {path}"))
        if isinstance(found, Exception):
            raise found
        return msgspec.convert(found, kind)


def term(key: str, *zones: str, operator: str = "In") -> Json:
    return {"key": key, "operator": operator, "values": list(zones)}


def a_volume(*terms: list[Json]) -> dict[str, Json]:
    """A claim that is bound to a volume whose node affinity has these terms."""
    required = {"nodeSelectorTerms": [{"matchExpressions": each} for each in terms]}
    spec = {"nodeAffinity": {"required": required}} if terms else {}
    return BOUND | {VOLUME: {"metadata": {"creationTimestamp": MADE}, "spec": spec}}


def find(objects: dict[str, Any]) -> Disk | None:
    return read_disk(Answering(objects).get, "team-a", "data")


A, B, C = "us-east5-a", "us-east5-b", "us-east5-c"
GOOGLES = "topology.gke.io/zone"


@rows(
    "objects zones",
    {key: (a_volume([term(key, A)]), (A,)) for key in ZONE_KEYS}
    | {
        "a regional disk": (a_volume([term(GOOGLES, B, A)]), (A, B)),
        "one term is enough": (a_volume([term(GOOGLES, A)], [term(GOOGLES, B)]), (A, B)),
        "all requirements hold": (a_volume([term(GOOGLES, A, B), term(ZONE_KEYS[0], B, C)]), (B,)),
        "other keys besides": (a_volume([term(GOOGLES, A), term("other", "x")]), (A,)),
    },
)
def test_a_volume_says_its_zones(objects: dict[str, Json], zones: tuple[str, ...]) -> None:
    assert find(objects) == Disk(claim="data", zones=zones)


@rows(
    "objects",
    {
        "a volume without affinity": a_volume(),
        "an affinity without zones": a_volume([term("other", "x")]),
        "one of two terms has no zone": a_volume([term(GOOGLES, A)], [term("other", "x")]),
        "an operator that names no zone": a_volume([term(GOOGLES, A, operator="NotIn")]),
        "an empty term": a_volume([]),
        "any zone": UNBOUND | {CLASS: {"volumeBindingMode": "WaitForFirstConsumer"}},
    },
)
def test_without_a_known_zone_there_is_no_pin(objects: dict[str, Json]) -> None:
    assert find(objects) is None


@rows(
    "objects why",
    {
        "no such claim": ({}, "does not exist"),
        "a claim without a spec": ({CLAIM: {}}, "is not bound to a volume yet"),
        "a person makes the volume": (
            {CLAIM: {"spec": {"storageClassName": ""}}},
            "is not bound to a volume yet, and names no StorageClass",
        ),
        "its class is gone": (UNBOUND, "is not bound to a volume yet, and StorageClass fast"),
        "its volume is gone": (BOUND, "names PersistentVolume pv-1, which does not exist"),
        "it is being deleted": (BOUND | {CLAIM: {"metadata": {"deletionTimestamp": MADE}}}, "is being deleted"),
        "it binds at once": (UNBOUND | {CLASS: {"allowedTopologies": []}}, "is not bound"),
    },
)
def test_a_claim_that_must_be_bound_before_its_pod_says_why_it_is_not(objects: dict[str, Json], why: str) -> None:
    found = find(objects)

    assert found is not None
    assert (found.zones, found.unbound.startswith(why)) == ((), True)


@pytest.mark.parametrize("spec", [{"volumeName": "../secrets"}, {"storageClassName": "a?b"}])
def test_a_name_that_is_a_path_is_that_of_an_absent_disk(spec: Json) -> None:
    api = KubernetesApi(Connection(url="http://127.0.0.1:9"))
    disk = read_disk(api.get, "team-a", "../../victim/persistentvolumeclaims/data")
    assert disk is not None
    assert disk.unbound == "does not exist"

    def get(path: str, kind: Any) -> Any:
        return msgspec.convert({"spec": spec}, kind) if path == CLAIM else api.get(path, kind)

    found = read_disk(get, "team-a", "data")
    assert found is None or not found.zones


def test_a_claim_without_a_volume_has_the_zones_of_its_class() -> None:
    terms = [{"matchLabelExpressions": [{"key": GOOGLES, "values": [B, A]}]}]

    found = find(UNBOUND | {CLASS: {"allowedTopologies": terms, "volumeBindingMode": "WaitForFirstConsumer"}})

    assert found == Disk(claim="data", zones=(A, B))
    assert str(found) == f"the disk of claim data is in {A} or {B}"


def test_a_bound_claim_takes_two_reads_and_never_its_class() -> None:
    api = Answering(a_volume([term(GOOGLES, A)]))

    read_disk(api.get, "team-a", "data")

    assert api.asked == [CLAIM, VOLUME]


@pytest.mark.parametrize("path", [CLAIM, VOLUME])
def test_what_may_not_be_read_makes_its_pods_wait_and_is_told(path: str) -> None:
    denied = {path: Denied(f"GET {path}: 403 Forbidden")}

    disk = find(a_volume([term(GOOGLES, A)]) | denied)
    assert disk == Disk(claim="data", unbound=f"cannot be judged: GET {path}: 403 Forbidden")
