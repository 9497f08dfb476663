"""URLs and ports: how options name them, and ports that are free when they are drawn."""

import random
import socket
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


HOST = "127.0.0.1"
_FIRST_PORT, _LAST_PORT = 15_000, 29_999
"""Below what systems hand out to connections and to whoever asks for any port (Linux from 32768,
others 49152), so that a port that was free when it was drawn is not taken by those before its
server listens.
"""
_TRIES = 500


class PortTaken(Exception):
    """A port cannot be had; the text says which and why."""


def draw_ports(count: int, *, besides: int = 0) -> list[int]:
    """Return different ports of 127.0.0.1 that are free at this moment, none of them `besides`.

    Raises PortTaken: no free ones were found.
    """
    # The system's randomness: two that start together must not draw the same ports.
    draw = random.SystemRandom()
    chosen: list[int] = []
    for _ in range(_TRIES):
        if len(chosen) == count:
            return chosen
        port = draw.randint(_FIRST_PORT, _LAST_PORT)
        if port not in (besides, *chosen) and is_free(port):
            chosen.append(port)
    raise PortTaken(f"no free ports on {HOST} between {_FIRST_PORT} and {_LAST_PORT}")


def is_free(port: int) -> bool:
    """Return whether a server could listen on a port of 127.0.0.1 now."""
    with socket.socket() as probe:
        # As servers bind: a connection that has just ended must not count as somebody listening.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
