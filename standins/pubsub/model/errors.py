"""The one error of the broker: a canonical code and a sentence that names the field and the value.

The skins translate `Code` to a gRPC status or an HTTP status; nothing here knows of either library.
"""

import enum


class Code(enum.Enum):
    """Name the canonical codes that the broker answers with.

    The value is the HTTP status of the REST skin.

    Source: https://cloud.google.com/pubsub/docs/reference/error-codes
    """

    INVALID_ARGUMENT = (400, "INVALID_ARGUMENT")
    FAILED_PRECONDITION = (400, "FAILED_PRECONDITION")
    NOT_FOUND = (404, "NOT_FOUND")
    ALREADY_EXISTS = (409, "ALREADY_EXISTS")
    UNIMPLEMENTED = (501, "UNIMPLEMENTED")

    @property
    def http_status(self) -> int:
        """Return the HTTP status that the REST skin answers with."""
        return self.value[0]


class BrokerError(Exception):
    """Say why a request was refused: a canonical code and a sentence."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def invalid(field: str, value: object, valid: str) -> BrokerError:
    """Return an INVALID_ARGUMENT error that names the field, the value, and what would be valid."""
    shown = repr(value)
    if len(shown) > 200:  # noqa: PLR2004  # a bound for the eye only
        shown = shown[:200] + "…"
    return BrokerError(
        Code.INVALID_ARGUMENT,
        f"You have passed an invalid argument to the service (argument={field}): got {shown}; valid: {valid}.",
    )


def not_found(resource: str) -> BrokerError:
    """Return the NOT_FOUND error for a resource name, of which Pub/Sub says the last part."""
    return BrokerError(Code.NOT_FOUND, f"Resource not found (resource={_last(resource)}).")


def already_exists(resource: str) -> BrokerError:
    """Return the ALREADY_EXISTS error for a resource name."""
    text = f"Resource already exists in the project (resource={_last(resource)})."
    return BrokerError(Code.ALREADY_EXISTS, text)


def _last(resource: str) -> str:
    return resource.rpartition("/")[2]
