"""Our GKE edge and the official client against one control plane: the same world, the same errors.

What every implementation of the port keeps, the fake of the component tests too, is in
`test_node_pools_port`. The rows are the errors that an idempotent caller must tell apart:
https://cloud.google.com/kubernetes-engine/docs/troubleshooting/concurrent-operations and public
issue threads.
"""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from google.api_core.exceptions import GoogleAPICallError

from shared.core import labels
from shared.core.errors import (
    AlreadyExists,
    Busy,
    ClusterNotFound,
    Denied,
    InvalidRequest,
    NoCapacity,
    NotFound,
    ProvisionerError,
    StaleView,
    Throttled,
    Unavailable,
)
from shared.core.identity.pools import PoolStatus
from tests.builders import CLUSTER, settings
from tests.contract.gke_world import (
    CODES_OVER_HTTP,
    Gke,
    LeapingClock,
    a_body,
    at_rest,
    big,
    by_edge,
    by_official,
    fail,
    full,
    going,
    lost,
    nothing,
    open_edge,
    under_way,
    upgrading,
)
from tests.contract.test_google_calls_once import CALLS

ROWS = [
    # what the world is like, the call, what the edge raises, the canonical code
    pytest.param(under_way, "create", Busy, "FAILED_PRECONDITION", id="1 the same pool is being made"),
    pytest.param(under_way, "delete", Busy, "FAILED_PRECONDITION", id="1 delete while it is being made"),
    pytest.param(going, "create", Busy, "FAILED_PRECONDITION", id="1 create while it is being deleted"),
    pytest.param(going, "delete", Busy, "FAILED_PRECONDITION", id="1 delete while it is being deleted"),
    pytest.param(upgrading, "create", Busy, "FAILED_PRECONDITION", id="2 the cluster is busy"),
    pytest.param(
        fail("FAILED_PRECONDITION", "Operation x is currently creating a node pool for cluster c."),
        "create",
        Busy,
        "FAILED_PRECONDITION",
        id="2 older words for busy",
    ),
    pytest.param(full, "create", Throttled, "RESOURCE_EXHAUSTED", id="3 too many operations"),
    pytest.param(
        fail("RESOURCE_EXHAUSTED", "Quota exceeded for quota metric 'API requests'", "RATE_LIMIT_EXCEEDED"),
        "list",
        Throttled,
        "RESOURCE_EXHAUSTED",
        id="4 too many requests",
    ),
    pytest.param(at_rest, "create", AlreadyExists, "ALREADY_EXISTS", id="5 exists"),
    pytest.param(nothing, "create elsewhere", ClusterNotFound, "NOT_FOUND", id="7 no cluster on create"),
    pytest.param(nothing, "get elsewhere", ClusterNotFound, "NOT_FOUND", id="7 no cluster on get"),
    pytest.param(nothing, "delete elsewhere", ClusterNotFound, "NOT_FOUND", id="7 no cluster on delete"),
    pytest.param(nothing, "list elsewhere", ClusterNotFound, "NOT_FOUND", id="7 no cluster on list"),
    pytest.param(nothing, "create illegal", InvalidRequest, "INVALID_ARGUMENT", id="9 an illegal name"),
    pytest.param(nothing, "create misshapen", InvalidRequest, "INVALID_ARGUMENT", id="9 hosts that do not fit"),
    pytest.param(
        fail("PERMISSION_DENIED", 'Required "container.clusters.update" permission(s)', "IAM_PERMISSION_DENIED"),
        "create",
        Denied,
        "PERMISSION_DENIED",
        id="10 IAM",
    ),
    pytest.param(
        fail("INVALID_ARGUMENT", "The user does not have access to service account x"),
        "create",
        Denied,
        "INVALID_ARGUMENT",
        id="11 the node account",
    ),
    pytest.param(
        fail("PERMISSION_DENIED", "Insufficient regional quota to satisfy request", "INSUFFICIENT_QUOTA_REGIONAL"),
        "create",
        NoCapacity,
        "PERMISSION_DENIED",
        id="12 quota",
    ),
    pytest.param(
        fail("INVALID_ARGUMENT", "Cannot find pod range with enough available IPs for nodepool n"),
        "create",
        InvalidRequest,
        "INVALID_ARGUMENT",
        id="13 addresses",
    ),
    pytest.param(big, "create", InvalidRequest, "INVALID_ARGUMENT", id="14 the cluster's size in bytes"),
    pytest.param(fail("ABORTED", "etag mismatch"), "delete", StaleView, "ABORTED", id="15 etag"),
    pytest.param(fail("INTERNAL", "Internal error"), "create", Unavailable, "INTERNAL", id="16 internal"),
    pytest.param(fail("UNAVAILABLE", "unavailable"), "list", Unavailable, "UNAVAILABLE", id="16 unavailable"),
    pytest.param(fail("UNKNOWN", "?"), "get", Unavailable, "UNKNOWN", id="16 unknown"),
    pytest.param(
        fail("DEADLINE_EXCEEDED", "deadline"), "create", Unavailable, "DEADLINE_EXCEEDED", id="17 deadline"
    ),
    pytest.param(
        fail("UNIMPLEMENTED", "manual resize is not supported", "UNIMPLEMENTED"),
        "create",
        InvalidRequest,
        "UNIMPLEMENTED",
        id="18 unimplemented",
    ),
]


@pytest.mark.parametrize(("arrange", "call", "kind", "code"), ROWS)
def test_each_refusal_is_one_class_here_and_one_code_in_the_official_client(
    gke: Gke, arrange: Callable[[Gke, str], None], call: str, kind: type[ProvisionerError], code: str
) -> None:
    body = a_body()
    arrange(gke, body["name"])
    with pytest.raises(kind) as ours:
        by_edge(gke, call, body)
    assert type(ours.value) is kind

    arrange(gke, body["name"])
    with pytest.raises(GoogleAPICallError) as theirs:
        by_official(gke.official, call, body)
    assert theirs.value.response.json()["error"]["status"] == code
    assert theirs.value.code == CODES_OVER_HTTP.get(code, theirs.value.code)


def test_no_identity_is_denied_and_unauthenticated(gke: Gke) -> None:
    """The official client shows no 401: it asks its credentials for another token instead."""
    for _ in range(2):
        fail("UNAUTHENTICATED", "Request had invalid authentication credentials.")(gke, "")
    with pytest.raises(Denied):
        gke.edge.list(CLUSTER)
    answer = httpx.get(f"{gke.url}/v1/{CLUSTER}/nodePools")
    assert (answer.status_code, answer.json()["error"]["status"]) == (401, "UNAUTHENTICATED")


@pytest.mark.parametrize("how", ["drop", "unavailable", "deadline"])
def test_a_lost_reply_is_unavailable_and_sent_once_and_the_pool_is_there(gke: Gke, how: str) -> None:
    body = a_body()
    lost(how)(gke, body["name"])
    with pytest.raises(Unavailable):
        gke.edge.create(CLUSTER, body)

    assert gke.calls(body["name"], "CreateNodePool") == 1
    found = gke.edge.get(CLUSTER, body["name"])
    assert found is not None
    assert found.status == PoolStatus.PROVISIONING


def test_a_control_plane_out_of_reach_is_unavailable() -> None:
    edge = open_edge("http://127.0.0.1:9")

    for call in (lambda: edge.list(CLUSTER), lambda: edge.get(CLUSTER, "n"), lambda: edge.delete(CLUSTER, "n")):
        with pytest.raises(Unavailable):
            call()


def test_an_answer_that_is_no_json_is_unavailable(gke: Gke) -> None:
    edge = open_edge(f"{gke.url}/admin/pools?")

    with pytest.raises(Unavailable, match="cannot be read"):
        edge.get(CLUSTER, "n")


@pytest.mark.parametrize(
    "shape",
    [
        {"selectors": {labels.SPOT: "true"}},
        {"selectors": {labels.RESERVATION_NAME: "r"}},
        {"selectors": {labels.RESERVATION_NAME: "r", labels.RESERVATION_PROJECT: "other-project"}},
        {"topology": "2x4", "chips": 8},
        {"topology": "1x1", "chips": 1},
        {"accelerator": "tpu7x", "topology": "2x2x2"},
        {"accelerator": "tpu-v5-lite-podslice", "topology": "2x4"},
        {"accelerator": "tpu-v4-podslice", "topology": "2x2x4"},
        {"accelerator": "tpu-v5p-slice", "topology": "2x2x1"},
    ],
)
def test_every_kind_of_body_is_accepted_and_read_alike_by_the_official_client(
    gke: Gke, shape: dict[str, Any]
) -> None:
    body = a_body(settings(allowed_shared_reservations=("other-project/r",)), **shape)
    gke.edge.create(CLUSTER, body)
    ours = gke.edge.get(CLUSTER, body["name"])
    theirs = gke.official.get_node_pool(name=f"{CLUSTER}/nodePools/{body['name']}")

    assert ours is not None
    assert ours.labels == dict(theirs.config.labels)
    assert (ours.node_count, ours.machine_type) == (theirs.initial_node_count, theirs.config.machine_type)
    assert str(ours.status) == theirs.status.name


def test_not_found_on_create_is_never_taken_for_success(gke: Gke) -> None:
    gke.fault("fail_sync", code="NOT_FOUND", text='Not found: node pool "n" not found.')
    with pytest.raises(NotFound):
        gke.edge.create(CLUSTER, a_body())


@pytest.mark.parametrize("step", [20.0, -60.0])
@pytest.mark.parametrize("act", ["create", "delete", "resize", "remove_nodes"])
def test_what_rests_on_a_look_is_not_sent_late(act: str, step: float) -> None:
    """Nothing listens there: what is sent fails with other words."""
    edge = open_edge("http://127.0.0.1:9", LeapingClock(step))

    with pytest.raises(Unavailable, match="not sent"):
        CALLS[act](edge)
    with pytest.raises(Unavailable, match="refused"):
        edge.get(CLUSTER, "p")
