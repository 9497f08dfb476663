"""What Google's library raises without a status of gRPC, and our error for it."""

import json

import pytest
import requests
from google.api_core import exceptions
from google.auth.exceptions import DefaultCredentialsError, RefreshError, TransportError

from shared.core.errors import Busy, Denied, ProvisionerError, Unavailable
from shared.edges.google_calls import classify_call_error, translate_errors
from shared.edges.google_errors import find_request


def test_over_rest_the_canonical_code_of_the_body_counts_and_not_the_library_s_class() -> None:
    answer = requests.Response()
    answer.status_code = 400
    answer.headers["Retry-After"] = "7"
    refusal = {"error": {"code": 400, "message": "words", "status": "FAILED_PRECONDITION"}}
    answer._content = json.dumps(refusal).encode()
    answer.request = requests.Request("GET", "http://x").prepare()
    raised = exceptions.from_http_response(answer)  # type: ignore[no-untyped-call]
    error = classify_call_error("GET x", raised)

    assert type(raised) is exceptions.BadRequest
    assert type(error) is Busy
    assert error.retry_after_seconds == 7.0


NO_ANSWER: dict[Exception, type[ProvisionerError]] = {
    exceptions.GoogleAPICallError("words"): Unavailable,  # type: ignore[no-untyped-call]
    exceptions.RetryError("words", cause=None): Unavailable,  # type: ignore[no-untyped-call]
    requests.ConnectionError("words"): Unavailable,
    requests.ReadTimeout("words"): Unavailable,
    TransportError("words"): Unavailable,  # type: ignore[no-untyped-call]
    RefreshError("words", retryable=True): Unavailable,  # type: ignore[no-untyped-call]
    RefreshError("words"): Denied,  # type: ignore[no-untyped-call]
    DefaultCredentialsError("words"): Denied,  # type: ignore[no-untyped-call]
}


@pytest.mark.parametrize(("raised", "expected"), NO_ANSWER.items(), ids=repr)
def test_what_has_no_status_is_an_answer_that_is_missing_or_an_account_that_is(
    raised: Exception, expected: type[ProvisionerError]
) -> None:
    with pytest.raises(expected, match="words") as caught, translate_errors("GET x"):
        raise raised

    assert type(caught.value) is expected
    assert find_request(caught.value) == "GET x"
