"""Turns what Google's client libraries raise into our errors, by the table of `google_errors`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from google.api_core.exceptions import GoogleAPICallError, GoogleAPIError
from google.auth.exceptions import GoogleAuthError
from google.protobuf.json_format import ParseError
from requests.exceptions import RequestException

from shared.edges.google_account import UNREADABLE, classify_account_error
from shared.edges.google_errors import (
    ErrorBody,
    ErrorDetail,
    classify_error,
    classify_refusal,
    note_request,
)
from shared.model.errors import ProvisionerError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXT_MAX = 600
"""Characters of a library's own words in an error: they can quote a whole answer."""


@contextmanager
def translate_errors(request: str) -> Iterator[None]:
    """Raise our errors for those of a Google client inside the block.

    Args:
        request: What is asked, for logs, for example ``CreateNodePool projects/P/...``.

    Raises:
        ProvisionerError: the leaf of `shared.model.errors` that the table finds; `Unavailable` when
            there was no answer; `Denied` when there are no credentials or they are refused.
    """
    try:
        yield
    except GoogleAPICallError as error:
        raise classify_call_error(request, error) from error
    except GoogleAuthError as error:
        raise note_request(classify_account_error(error), request) from error
    except (GoogleAPIError, RequestException) as error:
        raise note_request(Unavailable(f"no answer: {error!s:.{TEXT_MAX}}"), request) from error
    except (ParseError, *UNREADABLE) as error:
        raise note_request(
            Unavailable(f"the answer cannot be read: {error!s:.{TEXT_MAX}}"), request
        ) from error


def classify_call_error(request: str, error: GoogleAPICallError) -> ProvisionerError:
    """Return the error that a refused call means, over REST and over gRPC.

    Over REST the library keeps only the HTTP status, so the canonical code is read from its answer.
    """
    body = getattr(error.response, "content", None)
    if isinstance(body, bytes):
        status = getattr(error.response, "status_code", error.code or 0)
        return classify_refusal(request, status, body, error.response.headers.get("Retry-After"))
    if error.code is None and error.grpc_status_code is None:
        return note_request(Unavailable(f"no answer: {error}"), request)
    refusal = ErrorBody(
        message=str(error.message or ""),
        status=error.grpc_status_code.name if error.grpc_status_code else "",
        details=[ErrorDetail(reason=error.reason or "")],
    )
    return classify_error(request, error.code or 0, refusal)
