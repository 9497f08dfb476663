"""URLs, ports, and the files that tell others where a server is.

The files are readable by this user only, and never seen half-written.
"""

import atexit
import json
import random
import secrets
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import typer

HOST = "127.0.0.1"
STAND_IN = "tpu-provisioner-standin"
"""The user agent of every stand-in, by which another one tells its calls from those of users."""


def check_url(url: str) -> str:
    """Return the URL that an option names; empty for none. It is the option's callback."""
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


_BLOCKS, _BLOCK_LENGTH = range(15_000, 30_000, 100), 100
"""Below what systems hand out to connections and to whoever asks for any port (Linux from 32768,
others 49152), so that a port that was free when it was drawn is not taken by those before its
server listens.
"""
_DRAWING = threading.Lock()


class PortTaken(Exception):
    """A port cannot be had; the text says which and why."""


def draw_ports(count: int) -> list[int]:
    """Return different ports of 127.0.0.1 that are free, and that no other process draws.

    A server may listen half a minute later. Raises PortTaken: there are not so many.
    """
    with _DRAWING:
        return [next(_PORTS) for _ in range(count)]


def _yield_ports() -> Iterator[int]:
    """Yield the free ports of blocks that this process holds by their first port until it ends."""
    for first in random.SystemRandom().sample(_BLOCKS, len(_BLOCKS)):
        guard = socket.socket()
        try:
            guard.bind((HOST, first))
        except OSError:
            guard.close()
            continue
        atexit.register(guard.close)
        yield from filter(is_free, range(first + 1, first + _BLOCK_LENGTH))
    raise PortTaken(f"no free ports on {HOST} between {_BLOCKS.start} and {_BLOCKS.stop}")


_PORTS = _yield_ports()


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


def listens(port: int) -> bool:
    """Return whether something accepts connections on a port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def answers(url: str, verify: ssl.SSLContext | bool = False) -> bool:  # noqa: FBT001, FBT002 -- httpx's own
    """Return whether an address answers with success; by default whatever its certificate is."""
    try:
        return httpx.get(url, timeout=2, verify=verify, trust_env=False).is_success
    except httpx.HTTPError:
        return False


class NotWritten(OSError):
    """A file cannot be written; the text says which, why, and what is valid."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"{path} cannot be written ({error.strerror}); valid: a file that this user may write")


def check_writable(path: Path | None) -> Path | None:
    """Return the path that an option names, to which `write_private` will write later.

    It is the option's callback, so that a server does not start for nobody to find.
    """
    if path is not None:
        try:
            if path.is_dir():
                raise IsADirectoryError(None, "it is a folder")
            _make_draft(path).unlink()
        except OSError as error:
            raise typer.BadParameter(str(NotWritten(path, error))) from error
    return path


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user may read, so that a reader sees all of it or nothing."""
    try:
        draft = _make_draft(path)
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise NotWritten(path, error) from error


def read_ports(path: Path) -> dict[str, str]:
    """Return the content of a ports file, or an empty mapping when it is not there yet."""
    if not path.exists():
        return {}
    content = json.loads(path.read_text(encoding="utf-8"))
    return {str(key): str(value) for key, value in content.items()}


def write_ports(path: Path | None, addresses: Mapping[str, str]) -> None:
    """Write a ports file, if one was asked for: the addresses of a server that listens, as JSON."""
    if path is not None:
        write_private(path, json.dumps(dict(addresses)) + "\n")


def _make_draft(path: Path) -> Path:
    if not path.parent.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    draft.touch(mode=0o600)
    return draft
