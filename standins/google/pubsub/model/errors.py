"""What Pub/Sub refuses: a canonical code, and a sentence that names the field and the value."""

from standins.google.errors import ApiError, Code


def invalid(field: str, value: object, valid: str) -> ApiError:
    """Return an INVALID_ARGUMENT error that names the field, the value, and what would be valid."""
    shown = repr(value)
    if len(shown) > 200:  # noqa: PLR2004  # a bound for the eye only
        shown = shown[:200] + "…"
    return ApiError(
        Code.INVALID_ARGUMENT,
        f"You have passed an invalid argument to the service (argument={field}): got {shown}; valid: {valid}.",
    )


def not_found(resource: str) -> ApiError:
    """Return the NOT_FOUND error for a resource name, of which Pub/Sub says the last part."""
    return ApiError(Code.NOT_FOUND, f"Resource not found (resource={_last(resource)}).")


def already_exists(resource: str) -> ApiError:
    """Return the ALREADY_EXISTS error for a resource name."""
    text = f"Resource already exists in the project (resource={_last(resource)})."
    return ApiError(Code.ALREADY_EXISTS, text)


def _last(resource: str) -> str:
    return resource.rpartition("/")[2]
