"""An HTTP server on 127.0.0.1 inside a running event loop.

Uvicorn, on a port that is known before it serves.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Literal

import uvicorn
from starlette.types import ASGIApp

from standins.kit.addresses import HOST, PortTaken

_POLL_SECONDS = 0.01
_BACKLOG = 512
_KEEP_ALIVE_SECONDS = 5


@dataclass(frozen=True, slots=True)
class HttpServer:
    """A server that listens."""

    url: str
    task: asyncio.Task[None]  # ends when the server ends


class _Server(uvicorn.Server):
    capture_signals = staticmethod(contextlib.nullcontext)  # type: ignore[assignment]  # uvicorn's own seam
    before_end: Callable[[], object]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.before_end()
        await super().shutdown(sockets)


@contextlib.asynccontextmanager
async def serving(
    application: ASGIApp,
    port: int = 0,
    *,
    http: type[asyncio.Protocol] | Literal["auto"] = "auto",
    keep_alive_seconds: int = _KEEP_ALIVE_SECONDS,
    before_end: Callable[[], object] = lambda: None,
) -> AsyncIterator[HttpServer]:
    """Serve an application on a port of 127.0.0.1 while the block runs; port 0 takes a free one.

    Signals are left to the process, which may have more to end than this server. `before_end` ends
    what would hold the server up: answers that have no end of their own.

    Raises PortTaken: the port is taken.
    """
    with listen(port) as listener:
        config = uvicorn.Config(
            application,
            http=http,
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_keep_alive=keep_alive_seconds,
            timeout_graceful_shutdown=1,
        )
        server = _Server(config)
        server.before_end = before_end
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            while not server.started:
                if task.done():
                    await task
                    raise OSError(f"the HTTP server on port {port} ended before it listened")
                await asyncio.sleep(_POLL_SECONDS)
            yield HttpServer(f"http://{HOST}:{listener.getsockname()[1]}", task)
        finally:
            server.should_exit = True
            await task


def listen(port: int) -> socket.socket:
    """Return a socket that listens on a port of 127.0.0.1; 0 takes a free one.

    Raises PortTaken: the port is taken.
    """
    # asyncio sends small answers at once (TCP_NODELAY) only where the protocol is named.
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as error:
        listener.close()
        raise PortTaken(
            f"port {port} on {HOST} cannot be used ({error.strerror}); valid: a free port, or 0"
        ) from error
    listener.listen(_BACKLOG)
    return listener
