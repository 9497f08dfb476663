"""What the real services do not have, under ``/admin/``: calls, pools, faults, messages, counters.

An action gets the query and the body of a request, and returns what is answered as JSON. What it
cannot use it says by a ValueError.
"""

import inspect
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import msgspec
from google.protobuf import json_format
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from standins.google.errors import ApiError, error_response
from standins.google.gke.fake_gke import FakeGke
from standins.google.gke.faults import parse_fault
from standins.google.gke.nodes import CallMade, Event
from standins.google.pubsub.broker import Broker

Json = dict[str, Any]
_CALLS_KEPT = 200_000
Action: TypeAlias = Callable[[Mapping[str, str], Any], Json | Awaitable[Json]]


def build_routes(actions: Mapping[str, Action]) -> list[Route]:
    """Return the routes of actions, each under its verb and name, such as ``GET calls``."""
    return [
        Route(f"/admin/{name}", _serve(action), methods=[verb])
        for key, action in actions.items()
        for verb, _, name in [key.partition(" ")]
    ]


def _serve(action: Action) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            answer = action(request.query_params, json.loads(await request.body() or "{}"))
            return JSONResponse(await answer if inspect.isawaitable(answer) else answer)
        except ApiError as error:
            return error_response(error)
        except ValueError as error:
            return JSONResponse({"error": str(error)}, status_code=400)

    return endpoint


class GkeActions:
    """Calls, pools, faults and the clock of GKE."""

    def __init__(self, gke: FakeGke) -> None:
        self._gke = gke
        self._calls: deque[CallMade] = deque(maxlen=_CALLS_KEPT)
        self.by_name: dict[str, Action] = {
            "GET calls": lambda _query, _body: {"calls": [vars(call) for call in self._calls]},
            "GET pools": lambda _query, _body: {"pools": gke.pools()},
            "POST faults": self._add_faults,
            "DELETE faults": self._clear_faults,
            "POST clock": self._advance,
        }

    def note(self, event: Event) -> None:
        """Remember an event of the model if it is a call; `at` is Unix seconds."""
        if isinstance(event, CallMade):
            self._calls.append(event)

    def _add_faults(self, _query: Mapping[str, str], body: Any) -> Json:
        wanted = body.get("faults", [body]) if isinstance(body, dict) else body
        added = [self._gke.faults.add(fault) for fault in [parse_fault(raw) for raw in wanted]]
        return {"added": [{"number": armed.number, **msgspec.to_builtins(armed.fault)} for armed in added]}

    def _clear_faults(self, query: Mapping[str, str], _body: Any) -> Json:
        number = query.get("number")
        return {"removed": self._gke.faults.clear(None if number is None else int(number))}

    def _advance(self, _query: Mapping[str, str], body: Any) -> Json:
        try:
            self._gke.clock.advance(float(body["advance_seconds"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f'a body like {{"advance_seconds": 60}} is wanted, not {body!r}') from error
        self._gke.agenda.run_due()
        return {"now": self._gke.clock.now()}


class PubsubActions:
    """Messages and counters of the broker; `disconnect` drops connections and aborts pushes."""

    def __init__(self, broker: Broker, disconnect: Callable[[], Awaitable[int]]) -> None:
        self._broker, self._disconnect = broker, disconnect
        self.by_name: dict[str, Action] = {
            "GET messages": self._list_messages,
            "GET subscriptions": self._list_subscriptions,
            "POST disconnect": self._drop,
        }

    def _list_messages(self, query: Mapping[str, str], _body: Any) -> Json:
        published = self._broker.topic(query.get("topic", "")).published
        whole = partial(json_format.MessageToDict, always_print_fields_with_no_presence=True)
        return {"messages": list(map(whole, published))}

    def _list_subscriptions(self, _query: Mapping[str, str], _body: Any) -> Json:
        self._broker.settle()
        rows = [
            {
                "name": each.name,
                "topic": each.terms.topic,
                "pushEndpoint": each.terms.push_config.push_endpoint,
                "acked": each.acked,
                "outstanding": each.outstanding,
                "backlog": each.backlog,
            }
            for each in self._broker.subscriptions.values()
        ]
        return {"subscriptions": rows}

    async def _drop(self, _query: Mapping[str, str], _body: Any) -> Json:
        return {"abortedPushes": await self._disconnect()}
