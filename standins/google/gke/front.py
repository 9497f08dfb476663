"""How the model of GKE is called: after the time that it takes, with answers that get lost."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from google.cloud.container_v1 import types
from google.cloud.container_v1.services.cluster_manager.transports.rest_base import (
    _BaseClusterManagerRestTransport,
)
from starlette.requests import Request

from standins.google.api import Api, Caller, read_rules
from standins.google.errors import ApiError, Code
from standins.google.gke.fake_gke import FakeGke, LostReply
from standins.google.gke.nodes import CallMade, Event, NodesDown, NodesDraining, NodeUp, PoolState
from standins.google.gke.pools import Message
from standins.kit.addresses import STAND_IN
from standins.kit.lifecycle import write_record

_LOST = {"unavailable": Code.UNAVAILABLE, "deadline": Code.DEADLINE_EXCEEDED, "drop": Code.UNAVAILABLE}
_CALLS_KEPT = 200_000


class GkeFront:
    """Answers calls of GKE's API.

    `speed` 0 means that time stands still: answer at once. `drop` cuts the connection of a request.
    """

    def __init__(self, gke: FakeGke, speed: float, drop: Callable[[Request], None]) -> None:
        self._gke, self._speed, self._drop = gke, speed, drop
        self.api = Api(read_rules([_BaseClusterManagerRestTransport], types), self._answer, lists=True)

    async def _answer(self, method: str, message: Message, caller: Caller) -> Message:
        if self._speed:
            await asyncio.sleep(self._gke.world.scenario.timings.latency(method) / self._speed)
        try:
            return self._gke.call(method, message, _name_skin(caller.request))
        except LostReply as lost:
            if lost.how == "drop" and caller.request is not None:
                self._drop(caller.request)
            raise ApiError(_LOST[lost.how], "The service is currently unavailable.") from lost


def _name_skin(request: Request | None) -> str:
    """Return another name for calls of stand-ins, such as the autoscaler's: no user makes them."""
    return STAND_IN if request and request.headers.get("User-Agent") == STAND_IN else "rest"


class CallLog:
    """Remembers the latest calls, oldest first."""

    def __init__(self) -> None:
        self._calls: deque[CallMade] = deque(maxlen=_CALLS_KEPT)

    def note(self, event: Event) -> None:
        """Take note of an event if it is a call."""
        if isinstance(event, CallMade):
            self._calls.append(event)

    def listed(self) -> list[dict[str, Any]]:
        """Return the calls as plain data; `at` is Unix seconds."""
        return [dict(vars(call)) for call in self._calls]


def log_event(event: Event) -> None:
    """Write one event of the model, if it is one that a person looks for, into the log."""
    if isinstance(event, CallMade):
        fields = {name: value for name, value in vars(event).items() if name != "at"}
        write_record("call", "INFO" if event.code == "OK" else "WARNING", **fields)
    elif isinstance(event, PoolState):
        severity = "WARNING" if "ERROR" in event.status else "INFO"
        write_record("pool state", severity, cluster=event.cluster.cluster, pool=event.pool, status=event.status)
    elif isinstance(event, NodeUp):
        write_record("node up", "DEBUG", pool=event.node.pool, node=event.node.name)
    elif isinstance(event, NodesDraining | NodesDown):
        what = "nodes draining" if isinstance(event, NodesDraining) else "nodes down"
        write_record(what, "DEBUG", pool=event.pool, nodes=len(event.names))
