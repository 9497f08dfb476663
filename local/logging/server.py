"""The process: one endpoint on 127.0.0.1, a ports file once it listens, an end on SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from local.logging.entries import read_entries
from local.logging.filters import BadFilter, parse_filter

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import Request

HOST = "127.0.0.1"
PAGE_SIZE_MAX = 1000
_PAGE_SIZE_DEFAULT = 50
_ORDERS = ("timestamp asc", "timestamp desc")
_log = logging.getLogger(__name__)


class Question(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The body of ``entries:list``."""

    resource_names: list[str]
    filter: str = ""
    order_by: str = "timestamp asc"
    page_size: int = _PAGE_SIZE_DEFAULT
    page_token: str = ""


class LoggingServer:
    """Answers about the log files of one folder, all of one project."""

    def __init__(self, folder: Path, project: str) -> None:
        self._folder, self._project = folder, project

    def application(self) -> Starlette:
        """Return the ASGI application."""
        return Starlette(
            routes=[
                Route("/v2/entries:list", self._list, methods=["POST"]),
                Route("/healthz", lambda _request: PlainTextResponse("ok")),
            ]
        )

    async def _list(self, request: Request) -> Response:
        try:
            question = msgspec.json.decode(await request.body(), type=Question)
            return JSONResponse(self.answer(question))
        except (msgspec.DecodeError, BadFilter) as error:
            body = {"code": 400, "message": str(error), "status": "INVALID_ARGUMENT"}
            return JSONResponse({"error": body}, status_code=400)

    def answer(self, question: Question) -> dict[str, Any]:
        """Return one page of the entries that fit.

        Raises:
            BadFilter: a field of the question is wrong.
        """
        if question.order_by not in _ORDERS:
            raise BadFilter(f"orderBy: unknown (got {question.order_by!r}); valid: {', '.join(_ORDERS)}")
        if not 0 < question.page_size <= PAGE_SIZE_MAX:
            raise BadFilter(f"pageSize: out of range (got {question.page_size}); valid: 1 to {PAGE_SIZE_MAX}")
        if question.page_token and not question.page_token.isdecimal():
            raise BadFilter(f"pageToken: not one of ours (got {question.page_token!r}); valid: a nextPageToken")
        comparisons = parse_filter(question.filter)
        if f"projects/{self._project}" not in question.resource_names:
            return {}
        found = [
            entry
            for entry in read_entries(self._folder, self._project)
            if all(comparison.holds(entry) for comparison in comparisons)
        ]
        found.sort(
            key=lambda entry: datetime.fromisoformat(entry["timestamp"]),
            reverse=question.order_by.endswith("desc"),
        )
        begin = int(question.page_token or 0)
        end = begin + question.page_size
        more = {"nextPageToken": str(end)} if end < len(found) else {}
        return {"entries": found[begin:end], **more}


async def serve_until_signal(server: LoggingServer, *, port: int, ports_file: Path | None) -> None:
    """Run until SIGTERM or SIGINT; write the ports file once listening."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((HOST, port))
    listener.listen(64)
    config = uvicorn.Config(
        server.application(), log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1
    )
    running = uvicorn.Server(config)
    running.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]  # uvicorn's own seam
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, setattr, running, "should_exit", True)  # noqa: FBT003 -- setattr's form
    address = f"http://{HOST}:{listener.getsockname()[1]}"
    if ports_file is not None:
        draft = ports_file.with_name(f".{ports_file.name}.{os.getpid()}")
        ports_file.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(msgspec.json.encode({"rest": address}))
        draft.replace(ports_file)
    _log.info("listening", extra={"rest": address})
    await running.serve(sockets=[listener])
    _log.info("stopped")
