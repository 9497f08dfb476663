"""Of the audit log's entries only the ends of creates and deletes are read, each field strictly."""

import copy
import json
from typing import Any

import pytest

from shared.model.errors import MalformedEvent
from shared.model.messages import ENTRY_BYTES_MAX, EndedOperation, parse_entry
from shared.model.names import build_name
from tests.audit_entries import STOCKOUT, an_entry
from tests.builders import CLUSTER, a_claim
from tests.refusals import refuses

POOL = build_name(a_claim(), 0)


def parse(entry: object) -> EndedOperation | None:
    return parse_entry(json.dumps(entry).encode())


def changed(path: str, value: Any) -> dict[str, Any]:
    """The plain entry with one field changed, or left out for the value None."""
    entry: dict[str, Any] = copy.deepcopy(an_entry())
    *parents, field = path.split(".")
    parent = entry
    for each in parents:
        parent = parent[each]
    if value is None:
        del parent[field]
    else:
        parent[field] = value
    return entry


@pytest.mark.parametrize(
    ("entry", "created", "deleted", "problem"),
    [
        (an_entry(), True, False, ""),
        (an_entry(version="v1beta1"), True, False, ""),
        (an_entry(version="v1alpha1"), True, False, ""),
        (an_entry(status={"code": 0}), True, False, ""),
        (changed("protoPayload.status", None), True, False, ""),
        (an_entry(status=STOCKOUT), False, False, STOCKOUT["message"]),
        (an_entry("Delete"), False, True, ""),
        (an_entry("Delete", status=STOCKOUT), False, True, STOCKOUT["message"]),
        (an_entry("Delete", status={"code": 13}), False, True, "code 13"),
    ],
)
def test_the_end_of_a_create_or_delete_names_cluster_pool_and_success(
    entry: dict[str, Any], created: bool, deleted: bool, problem: str
) -> None:
    assert parse(entry) == EndedOperation(
        cluster=CLUSTER, pool=POOL, created=created, deleted=deleted, problem=problem
    )


def test_the_location_is_the_clusters_for_a_zone_too() -> None:
    zonal = CLUSTER.replace("us-east5", "us-east5-b")
    found = parse(an_entry(cluster=zonal))

    assert found is not None
    assert found.cluster == zonal


@pytest.mark.parametrize(
    "entry",
    [
        an_entry(last=False),
        an_entry("Update"),
        changed("operation", None),  # a call that GKE refused at once
        changed("operation.last", False),
        changed("operation.last", "true"),
        changed("resource.type", "gke_cluster"),
        changed("protoPayload.methodName", "google.container.internal.ClusterManagerInternal.UpdateCluster"),
        changed("protoPayload.methodName", "google.container.v1.ClusterManager.CreateNodePool.Evil"),
        changed("protoPayload", None),  # of another log
    ],
)
def test_an_entry_about_anything_else_is_none(entry: dict[str, Any]) -> None:
    assert parse(entry) is None


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("resource", None),
        ("resource", []),
        ("resource.type", 1),
        ("resource.labels", None),
        ("resource.labels", "x"),
        ("resource.labels.nodepool_name", {"a": 1}),
        ("protoPayload", "text"),
        ("protoPayload.methodName", 5),
        ("protoPayload.status", "ok"),
        ("operation", "last"),
    ],
)
def test_a_field_of_another_form_is_refused_by_name(path: str, value: Any) -> None:
    with refuses(MalformedEvent) as refused:
        parse(changed(path, value))

    assert path.rpartition(".")[0] in str(refused.value)


@pytest.mark.parametrize(
    "data", [b"", b"?", b"\xff", b"[]", b"null", b"7", b"[" * 100_000, b'{"a":"' + b"x" * ENTRY_BYTES_MAX + b'"}']
)
def test_data_that_is_no_entry_is_refused(data: bytes) -> None:
    with refuses(MalformedEvent):
        parse_entry(data)
