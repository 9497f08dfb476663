"""The admin endpoints beside the API: faults, calls, pools, the manual clock. Not part of GKE."""

import json
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from standins.google.gke.faults.fault_rules import parse_fault
from standins.google.gke.front import CallLog
from standins.google.gke.model.clock import ManualClock
from standins.google.gke.model.fake_gke import FakeGke


class Admin:
    """Handlers under /admin/. `clock` is None when time runs by itself."""

    def __init__(self, gke: FakeGke, calls: CallLog, clock: ManualClock | None) -> None:
        self._gke = gke
        self._calls = calls
        self._clock = clock

    def routes(self) -> list[Route]:
        """Return the admin routes."""
        return [
            Route("/admin/calls", self._list_calls, methods=["GET"]),
            Route("/admin/pools", self._list_pools, methods=["GET"]),
            Route("/admin/faults", self._list_faults, methods=["GET"]),
            Route("/admin/faults", self._add_faults, methods=["POST"]),
            Route("/admin/faults", self._clear_faults, methods=["DELETE"]),
            Route("/admin/clock", self._advance, methods=["POST"]),
        ]

    async def _list_calls(self, _: Request) -> JSONResponse:
        return JSONResponse({"calls": self._calls.listed()})

    async def _list_pools(self, _: Request) -> JSONResponse:
        return JSONResponse({"pools": self._gke.pools()})

    async def _list_faults(self, _: Request) -> JSONResponse:
        return JSONResponse({"faults": self._gke.faults.listed()})

    async def _add_faults(self, request: Request) -> JSONResponse:
        try:
            body = json.loads(await request.body())
            wanted = body.get("faults", [body]) if isinstance(body, dict) else body
            faults = [parse_fault(raw) for raw in wanted]
        except (ValueError, TypeError) as error:
            return _bad_request(str(error))
        added = [self._gke.faults.add(fault) for fault in faults]
        return JSONResponse(
            {"added": [{"number": armed.number, **msgspec.to_builtins(armed.fault)} for armed in added]}
        )

    async def _clear_faults(self, request: Request) -> JSONResponse:
        number = request.query_params.get("number")
        if number is not None and not number.isdigit():
            return _bad_request(f"number: {number!r} is not the number of a fault")
        removed = self._gke.faults.clear(None if number is None else int(number))
        return JSONResponse({"removed": removed})

    async def _advance(self, request: Request) -> JSONResponse:
        if self._clock is None:
            return _bad_request("the clock runs by itself; start with --manual-clock to move it by hand")
        try:
            body: Any = json.loads(await request.body())
            self._clock.advance(float(body["advance_seconds"]))
        except (ValueError, KeyError, TypeError) as error:
            return _bad_request(f'a body like {{"advance_seconds": 60}} is wanted: {error}')
        self._gke.agenda.run_due()
        return JSONResponse({"now": self._clock.now()})


def _bad_request(text: str) -> JSONResponse:
    return JSONResponse({"error": text}, status_code=400)
