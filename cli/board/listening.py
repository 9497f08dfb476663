"""The board's server: threads of werkzeug on 127.0.0.1."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from werkzeug.serving import WSGIRequestHandler, make_server

from cli.exit_codes import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cli.board.site import Site

HOST = "127.0.0.1"


class _QuietHandler(WSGIRequestHandler):
    """Writes no log: each address has the token in it."""

    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002 -- as werkzeug has it
        """Write nothing."""


@contextmanager
def listening(site: Site, *, port: int = 0) -> Iterator[threading.Thread]:
    """Serve a board until the end of the block; yield the thread that serves it."""
    try:
        bound = socket.create_server((HOST, port))
    except OSError as error:
        raise BadInput(f"--port: cannot be used (got {port}: {error}); valid: a free port, or 0") from error
    with bound:  # the server has a copy of it
        server = make_server(HOST, port, site, threaded=True, request_handler=_QuietHandler, fd=bound.fileno())
    site.port = server.port
    thread = threading.Thread(target=server.serve_forever, name="board", daemon=True)
    site.feed.start()
    thread.start()
    try:
        yield thread
    finally:
        site.feed.end()
        server.shutdown()
        thread.join()


def serve_board(site: Site, *, port: int, say: Callable[[str], None]) -> None:
    """Serve a board until Ctrl-C."""
    with listening(site, port=port) as thread:
        say(f"The board: {site.address}")
        say("Only this computer reaches it. Its address is a password. Ctrl-C ends it.")
        with suppress(KeyboardInterrupt):
            thread.join()
