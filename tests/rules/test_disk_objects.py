"""In which zones a PersistentVolumeClaim's volume can be used, by what Kubernetes says of it."""

from typing import Any

import msgspec

from shared.edges.cluster import ZONE_KEYS, read_disk
from shared.model.decisions import Reason
from shared.model.errors import Denied, NotFound, Rejected
from shared.model.workloads import Disk
from tests.rows import rows

CLAIM = "/api/v1/namespaces/team-a/persistentvolumeclaims/data"
VOLUME = "/api/v1/persistentvolumes/pv-1"
CLASS = "/apis/storage.k8s.io/v1/storageclasses/fast"
MADE = "2027-01-15T08:00:00Z"
BOUND = {CLAIM: {"spec": {"volumeName": "pv-1", "storageClassName": "fast"}}}
UNBOUND = {CLAIM: {"spec": {"storageClassName": "fast"}}}
Json = dict[str, Any]


def find(objects: dict[str, Any], asked: list[str] | None = None) -> Disk | None:
    """Return what a claim means where reads are answered from a table of paths; some are errors."""

    def get(path: str, kind: Any) -> Any:
        if asked is not None:
            asked.append(path)
        found = objects.get(path, NotFound(f"404: {path}"))
        if isinstance(found, Exception):
            raise found
        return msgspec.convert(found, kind)

    return read_disk(get, "team-a", "data")


def term(key: str, *zones: str, operator: str = "In") -> Json:
    return {"key": key, "operator": operator, "values": list(zones)}


def a_volume(*terms: list[Json]) -> dict[str, Json]:
    """A claim that is bound to a volume whose node affinity has these terms."""
    required = {"nodeSelectorTerms": [{"matchExpressions": each} for each in terms]}
    spec = {"nodeAffinity": {"required": required}} if terms else {}
    return BOUND | {VOLUME: {"metadata": {"creationTimestamp": MADE}, "spec": spec}}


A, B, C = "us-east5-a", "us-east5-b", "us-east5-c"
GOOGLES = "topology.gke.io/zone"
OF_CLASS = [{"matchLabelExpressions": [{"key": GOOGLES, "values": [B, A]}]}]
DENIED = Denied("GET x: 403 Forbidden")
A_PATH = Rejected(Reason.REQUEST_INVALID, "valid: plain names")  # what no request is sent for
TOLD = "cannot be judged: GET x: 403 Forbidden"


@rows(
    "objects zones why",
    {key: (a_volume([term(key, A)]), (A,), "") for key in ZONE_KEYS}
    | {
        "a regional disk": (a_volume([term(GOOGLES, B, A)]), (A, B), ""),
        "one term is enough": (a_volume([term(GOOGLES, A)], [term(GOOGLES, B)]), (A, B), ""),
        "all requirements hold": (a_volume([term(GOOGLES, A, B), term(ZONE_KEYS[0], B, C)]), (B,), ""),
        "other keys besides": (a_volume([term(GOOGLES, A), term("other", "x")]), (A,), ""),
        "a class with zones": (
            UNBOUND | {CLASS: {"allowedTopologies": OF_CLASS, "volumeBindingMode": "WaitForFirstConsumer"}},
            (A, B),
            "",
        ),
        "a volume without affinity": (a_volume(), None, ""),
        "an affinity without zones": (a_volume([term("other", "x")]), None, ""),
        "one of two terms has no zone": (a_volume([term(GOOGLES, A)], [term("other", "x")]), None, ""),
        "an operator that names no zone": (a_volume([term(GOOGLES, A, operator="NotIn")]), None, ""),
        "an empty term": (a_volume([]), None, ""),
        "any zone": (UNBOUND | {CLASS: {"volumeBindingMode": "WaitForFirstConsumer"}}, None, ""),
        "no such claim": ({}, (), "does not exist"),
        "a claim without a spec": ({CLAIM: {}}, (), "is not bound to a volume yet"),
        "a person makes the volume": (
            {CLAIM: {"spec": {"storageClassName": ""}}},
            (),
            "is not bound to a volume yet, and names no StorageClass",
        ),
        "its class is gone": (UNBOUND, (), "is not bound to a volume yet, and StorageClass fast"),
        "its volume is gone": (BOUND, (), "names PersistentVolume pv-1, which does not exist"),
        "it is being deleted": (
            BOUND | {CLAIM: {"metadata": {"deletionTimestamp": MADE}}},
            (),
            "is being deleted",
        ),
        "it binds at once": (UNBOUND | {CLASS: {"allowedTopologies": []}}, (), "is not bound"),
        "its name is a path": ({CLAIM: A_PATH}, (), "does not exist"),
        "the claim may not be read": (a_volume([term(GOOGLES, A)]) | {CLAIM: DENIED}, (), TOLD),
        "the volume may not be read": (a_volume([term(GOOGLES, A)]) | {VOLUME: DENIED}, (), TOLD),
    },
)
def test_a_claim_says_its_zones_or_what_must_be_mended_before_its_pods_run(
    objects: dict[str, Json], zones: tuple[str, ...] | None, why: str
) -> None:
    found = find(objects)

    assert (found.zones if found else None) == zones
    assert found is None or (found.unbound.startswith(why) and bool(found.unbound) == bool(why))


def test_a_bound_claim_takes_two_reads_and_never_its_class() -> None:
    asked: list[str] = []

    found = find(a_volume([term(GOOGLES, A, B)]), asked)

    assert asked == [CLAIM, VOLUME]
    assert str(found) == f"the disk of claim data is in {A} or {B}"
