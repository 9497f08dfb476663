"""Each error has a reason of the closed list and an answer; GKE's refusals give the right error."""

import json
import logging
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace as Object

import pytest
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, RefreshError, TransportError

from shared.deliver import ERRORS, NOTICE, SEVERITIES, answer_error
from shared.edges import kubernetes
from shared.edges.google import _classify_account_error, classify_refusal, find_request
from shared.model.decisions import Decision, Reason, Verdict, find_event
from shared.model.errors import (
    AlreadyExists,
    Broken,
    Busy,
    ClusterNotFound,
    Denied,
    InvalidRequest,
    KindAbsent,
    Misconfigured,
    NoCapacity,
    NotFound,
    OldLook,
    OutOfTime,
    ProvisionerError,
    Rejected,
    ReservationUnfit,
    Retryable,
    StaleView,
    Throttled,
    Unavailable,
)
from tests.rows import rows


def descendants(kind: type[ProvisionerError]) -> Iterator[type[ProvisionerError]]:
    for child in kind.__subclasses__():
        if child.__module__.startswith("shared."):
            yield child
            yield from descendants(child)


refused = partial(Rejected, Reason.CAPACITY_CONFLICT)
Maker = Callable[..., ProvisionerError]
RETRIED = (Retryable, Unavailable, Throttled, Busy, StaleView, KindAbsent, OldLook, OutOfTime)
ANSWERS: dict[tuple[int, int], tuple[Maker, ...]] = {
    (200, logging.WARNING): (refused,),
    (503, logging.WARNING): (*RETRIED, kubernetes.Expired, kubernetes.Unreadable),
    (503, logging.ERROR): (NoCapacity, ReservationUnfit, NotFound, AlreadyExists),
    (500, logging.ERROR): (InvalidRequest,),
    (500, logging.CRITICAL): (ClusterNotFound, Denied, Misconfigured, Broken, ProvisionerError),
}
"""What a retry cannot mend is acknowledged, and what it can is handed back: status and severity."""


@pytest.mark.parametrize(("answer", "kind"), [(key, kind) for key, kinds in ANSWERS.items() for kind in kinds])
def test_an_error_has_a_reason_of_the_closed_list_and_its_answer(answer: tuple[int, int], kind: Maker) -> None:
    error = Misconfigured(("TPU_PROVISIONER_MODE: wrong",)) if kind is Misconfigured else kind("words")
    found = answer_error(error)

    assert error.reason in set(Reason)
    assert (found.status, found.severity) == answer


def test_every_error_is_answered_and_no_row_of_the_table_is_shadowed_by_one_before_it() -> None:
    kinds = [kind for kind, _ in ERRORS]
    answered = {Rejected, *(kind for each in ANSWERS.values() for kind in each)}

    assert set(descendants(ProvisionerError)) - answered == set()
    assert not [later for n, later in enumerate(kinds) if any(issubclass(later, kind) for kind in kinds[:n])]


def test_every_decision_has_its_severity_in_the_log() -> None:
    assert {SEVERITIES[verdict] for verdict in Verdict} <= {logging.INFO, NOTICE, logging.WARNING}
    assert logging.getLevelName(NOTICE) == "NOTICE"


@rows(
    "verdict reason event",
    {
        "a refusal warns": (Verdict.REFUSE, Reason.SHAPE_UNSUPPORTED, ("NodePoolRefused", True)),
        "a pool that is kept does not": (Verdict.KEEP, Reason.POOL_IN_PROGRESS, ("NodePoolKept", False)),
        "slices that may mix do": (Verdict.KEEP, Reason.SLICES_MAY_MIX, ("NodePoolKept", True)),
        "a creation that failed": (Verdict.KEEP, Reason.STOCKOUT, ("NodePoolCreationFailed", True)),
        "a creation that succeeded": (Verdict.KEEP, Reason.POOL_CREATED, ("NodePoolCreationSucceeded", False)),
        "nothing is no Event": (Verdict.NOTHING, Reason.IDENTITY_MISMATCH, None),
    },
)
def test_an_event_has_the_reason_of_its_decision_and_may_warn(
    verdict: Verdict, reason: Reason, event: tuple[str, bool] | None
) -> None:
    assert find_event(Decision(verdict, reason, "")) == event


def test_a_rejection_says_field_value_and_what_would_be_valid() -> None:
    error = refused("wrong", field="a.b", value="c", valid="d")

    assert str(error) == "a.b: wrong (got 'c'); valid: d"
    assert (error.field, error.value, error.valid) == ("a.b", "c", "d")
    assert str(refused("wrong")) == "wrong"
    assert len(str(refused("wrong", value="x" * 1000))) < 140
    assert str(Misconfigured(("a", "b"))) == "settings are wrong:\n  - a\n  - b"


# --- GKE's refusals ---
# Texts from public recordings and issue threads, for example
# https://github.com/hashicorp/terraform-provider-google/issues/15579.

POOL, CLUSTER = "projects/p/locations/l/clusters/c/nodePools/n", "projects/p/locations/l/clusters/c"
PRECONDITION, WRONG, EXHAUSTED = (
    (400, "FAILED_PRECONDITION"),
    (400, "INVALID_ARGUMENT"),
    (429, "RESOURCE_EXHAUSTED"),
)
FORBIDDEN, ABSENT = (403, "PERMISSION_DENIED"), (404, "NOT_FOUND")
OPERATION_RUNS = "CLUSTER_ALREADY_HAS_OPERATION"
REFUSALS: dict[type[ProvisionerError], list[tuple[int, str, str, str]]] = {
    Busy: [
        (*PRECONDITION, "Cluster is running incompatible operation operation-1-2.", ""),
        (*PRECONDITION, "Cluster is running incompatible operation x", OPERATION_RUNS),
        (*WRONG, "Operation x is currently creating a node pool for cluster c.", ""),
        (400, "", "Operation x is currently deleting a node pool for cluster c.", ""),
        (400, "", "Operation x is currently upgrading cluster c.", ""),
        (400, "", "Cluster is currently being created, deleted, updated or repaired", ""),
    ],
    Throttled: [
        (*EXHAUSTED, "cluster c hits the concurrent operations quota 5", ""),
        (*EXHAUSTED, "Quota exceeded for quota metric 'API requests'", "RATE_LIMIT_EXCEEDED"),
        (429, "", "", ""),
    ],
    AlreadyExists: [(409, "ALREADY_EXISTS", f"Already exists: {POOL}.", ""), (409, "", "", "")],
    StaleView: [(409, "ABORTED", "etag mismatch", "")],
    NotFound: [
        (*ABSENT, 'Not found: node pool "n" not found.', ""),
        (*ABSENT, f"Not found: {POOL}.", ""),
        (404, "", "", ""),
    ],
    ClusterNotFound: [
        (*ABSENT, f"Not found: {CLUSTER}.", ""),
        (*ABSENT, "Not found: projects/p/zones/l/clusters/c.", ""),
    ],
    InvalidRequest: [
        (*WRONG, 'Invalid value for field "node_pool.name"', ""),
        (*WRONG, "16 is not a valid size of TPU pod slice with topology 4x8", ""),
        (*WRONG, "Cannot find pod range with enough available IPs for nodepool n", ""),
        (*WRONG, "Cluster byte size limit reached", ""),
        (400, "", "no such thing", ""),
        (501, "UNIMPLEMENTED", "manual resize is not supported", ""),
        (501, "", "", ""),
        (302, "", "", ""),
    ],
    Denied: [
        (*WRONG, "The user does not have access to service account x", ""),
        (401, "UNAUTHENTICATED", "Request had invalid authentication credentials.", ""),
        (401, "", "", ""),
        (*FORBIDDEN, 'Required "container.clusters.update" permission(s) for x', ""),
        (*FORBIDDEN, 'Required "x" permission(s) for "projects/quota-lab".', ""),
        (*FORBIDDEN, "x needs a quota project, which is not set by default.", ""),
        (*FORBIDDEN, "quota permission missing", "IAM_PERMISSION_DENIED"),
    ],
    NoCapacity: [
        (*FORBIDDEN, "Insufficient regional quota to satisfy request", ""),
        (*FORBIDDEN, "not enough", "INSUFFICIENT_QUOTA_REGIONAL"),
        (403, "", "Insufficient project quota to satisfy request", ""),
    ],
    ReservationUnfit: [
        (*ABSENT, 'reservation "train" not found for node pool "n" at zone "z".', ""),
        (*EXHAUSTED, "Reservation does not have enough resources for the request", ""),
        (*WRONG, "Specified reservations [train] do not exist.", ""),
    ],
    Unavailable: [
        (500, "INTERNAL", "Internal error encountered.", ""),
        (500, "UNKNOWN", "?", ""),
        (503, "UNAVAILABLE", "The service is currently unavailable.", ""),
        (504, "DEADLINE_EXCEEDED", "Deadline exceeded", ""),
        (502, "", "", ""),
        (408, "", "", ""),
        (499, "CANCELLED", "The operation was cancelled.", ""),
    ],
}


def google_body(status: str, message: str, reason: str) -> bytes:
    detail = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "container"}
    request = {"@type": "type.googleapis.com/google.rpc.RequestInfo", "requestId": "0x1"}
    details = [request, *([detail] if reason else [])]
    return json.dumps({"error": {"code": 1, "message": message, "status": status, "details": details}}).encode()


@pytest.mark.parametrize(
    ("http", "status", "message", "reason", "kind"),
    [(*refusal, kind) for kind, refusals in REFUSALS.items() for refusal in refusals],
)
def test_each_refusal_of_gke_is_the_error_that_says_what_to_do(
    http: int, status: str, message: str, reason: str, kind: type[ProvisionerError]
) -> None:
    error = classify_refusal(http, google_body(status, message, reason))

    assert type(error) is kind
    assert str(error) == f"{message or 'the answer has no error text'} ({f'HTTP {http} {status}'.rstrip()})"
    error.add_note("POST x")
    assert find_request(error) == "POST x"


BY_STATUS = {400: InvalidRequest, 401: Denied, 403: Denied, 404: NotFound, 409: AlreadyExists, 429: Throttled}
BY_STATUS |= {500: Unavailable, 503: Unavailable}


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"null", b"[]", b'{"error": "invalid_grant"}', b'{"error": {"message": "\xff"}}']
)
def test_a_refusal_in_no_known_form_goes_by_its_http_status(body: bytes) -> None:
    assert {http: type(classify_refusal(http, body)) for http in BY_STATUS} == BY_STATUS
    assert "the answer has no error text (HTTP 500)" in str(classify_refusal(500, body))
    assert len(str(classify_refusal(400, google_body("INVALID_ARGUMENT", "m" * 10_000, "")))) < 700


@rows(
    "error kind",
    {
        "no credentials": (DefaultCredentialsError("none"), Denied),  # type: ignore[no-untyped-call]
        "one that may be tried again": (RefreshError("later", retryable=True), Unavailable),  # type: ignore[no-untyped-call]
        **{
            f"the metadata server says {status}": (TransportError("no", Object(status=status)), kind)  # type: ignore[no-untyped-call]
            for status, kind in ((404, Denied), (429, Unavailable), (499, Denied), (500, Unavailable))
        },
        "no answer": (TransportError("no route"), Unavailable),  # type: ignore[no-untyped-call]
    },
)
def test_without_a_token_a_retry_helps_where_its_server_is_busy(
    error: GoogleAuthError, kind: type[ProvisionerError]
) -> None:
    wrapped = RefreshError("wrapped")  # type: ignore[no-untyped-call]
    wrapped.__cause__ = error

    assert type(_classify_account_error(error)) is kind
    if isinstance(error, TransportError):
        assert type(_classify_account_error(wrapped)) is kind


# --- the Kubernetes API's refusals ---


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", InvalidRequest),
        (401, "Unauthorized", Denied),
        (403, "Forbidden", Denied),
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", StaleView),
        (410, "Expired", kubernetes.Expired),
        (422, "Invalid", InvalidRequest),
        (429, "TooManyRequests", Throttled),
        (500, "InternalError", Unavailable),
        (503, "ServiceUnavailable", Unavailable),
        (504, "Timeout", Unavailable),
    ],
)
def test_each_refusal_of_kubernetes_is_the_error_that_says_what_to_do(
    code: int, reason: str, kind: type[ProvisionerError]
) -> None:
    error = kubernetes.classify_refusal("GET x", code, json.dumps({"reason": reason, "message": "words"}).encode())

    assert type(error) is kind
    assert "words" in str(error)


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"kind": "Pod"}', b'{"kind": "Status", "message": "\xff"}'])
def test_what_is_no_status_has_no_words(body: bytes) -> None:
    error = kubernetes.classify_refusal("GET x", 503, body)

    assert str(error) == "GET x: 503: the answer is not a Kubernetes Status"
