"""Addresses of servers that an option of a stand-in names."""

from urllib.parse import urlsplit

import typer

STAND_IN = "tpu-provisioner-standin"
"""The user agent of every stand-in, by which another one tells its calls from those of users."""


def check_url(url: str) -> str:
    """Return the URL that an option names; empty for none. It is the option's callback.

    Raises typer.BadParameter: it is none.
    """
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number or out of range, or half an IPv6 address
        valid = False
    if url and not valid:
        raise typer.BadParameter(
            f"is not a URL (got {url[:80]!r}); valid: http://HOST[:PORT] or https://HOST[:PORT]"
        )
    return url
