"""The REST skin: the public `/v1` paths, from JSON to the operation and back.

Paths and bodies as in https://cloud.google.com/pubsub/docs/reference/rest
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from standins.pubsub.bells import Bells
from standins.pubsub.model.errors import BrokerError, Code, invalid
from standins.pubsub.wire.service import ANSWERS, PULL, Service, request_class
from standins.pubsub.wire.waiting import pull_waiting

PULL_WAIT_SECONDS = 5.0

_TOPIC = "projects/{project}/topics/{id}"
_SUBSCRIPTION = "projects/{project}/subscriptions/{id}"
_SNAPSHOT = "projects/{project}/snapshots/{id}"


@dataclass(frozen=True)
class RestRoute:
    """Say how one operation looks in REST; `field` is the request field that the path fills in."""

    method: str
    path: str
    rpc: str
    field: str


ROUTES = (
    RestRoute("POST", f"{_TOPIC}:publish", "Publish", "topic"),
    RestRoute("PUT", _TOPIC, "CreateTopic", "name"),
    RestRoute("GET", _TOPIC, "GetTopic", "topic"),
    RestRoute("DELETE", _TOPIC, "DeleteTopic", "topic"),
    RestRoute("GET", "projects/{project}/topics", "ListTopics", "project"),
    RestRoute("POST", f"{_SUBSCRIPTION}:pull", PULL, "subscription"),
    RestRoute("POST", f"{_SUBSCRIPTION}:acknowledge", "Acknowledge", "subscription"),
    RestRoute("POST", f"{_SUBSCRIPTION}:modifyAckDeadline", "ModifyAckDeadline", "subscription"),
    RestRoute("POST", f"{_SUBSCRIPTION}:modifyPushConfig", "ModifyPushConfig", "subscription"),
    RestRoute("POST", f"{_SUBSCRIPTION}:seek", "Seek", "subscription"),
    RestRoute("PUT", _SUBSCRIPTION, "CreateSubscription", "name"),
    RestRoute("GET", _SUBSCRIPTION, "GetSubscription", "subscription"),
    RestRoute("PATCH", _SUBSCRIPTION, "UpdateSubscription", "subscription.name"),
    RestRoute("DELETE", _SUBSCRIPTION, "DeleteSubscription", "subscription"),
    RestRoute("GET", "projects/{project}/subscriptions", "ListSubscriptions", "project"),
    RestRoute("PUT", _SNAPSHOT, "CreateSnapshot", "name"),
    RestRoute("GET", _SNAPSHOT, "GetSnapshot", "snapshot"),
    RestRoute("DELETE", _SNAPSHOT, "DeleteSnapshot", "snapshot"),
    RestRoute("GET", "projects/{project}/snapshots", "ListSnapshots", "project"),
)

Endpoint = Callable[[Request], Awaitable[Response]]


def rest_routes(service: Service, bells: Bells) -> list[Route]:
    """Return the Starlette routes of the public REST API."""
    return [
        Route(f"/v1/{route.path}", _endpoint(route, service, bells), methods=[route.method]) for route in ROUTES
    ]


def error_response(error: BrokerError) -> JSONResponse:
    """Return a refusal in the form that Google's REST APIs use."""
    code = error.code.http_status
    body = {"code": code, "message": error.text, "status": error.code.name}
    return JSONResponse({"error": body}, status_code=code)


def _endpoint(route: RestRoute, service: Service, bells: Bells) -> Endpoint:
    async def answer(request: Request) -> Response:
        try:
            message = _request_message(route, request, await _json_body(request))
            if route.rpc == PULL:
                response = await pull_waiting(service, bells, message, PULL_WAIT_SECONDS)
            else:
                response = ANSWERS[route.rpc](service, message)
        except BrokerError as error:
            return error_response(error)
        integers = "enum-encoding=int" in request.query_params.get("$alt", "")
        return JSONResponse(json_format.MessageToDict(response, use_integers_for_enums=integers))

    return answer


async def _json_body(request: Request) -> dict[str, Any]:
    text = await request.body()
    if not text:
        return {}
    try:
        body = json.loads(text)
    except ValueError as error:
        raise invalid("body", text[:100].decode(errors="replace"), f"a JSON object ({error})") from error
    if not isinstance(body, dict):
        raise invalid("body", body, "a JSON object")
    return body


def _request_message(route: RestRoute, request: Request, body: dict[str, Any]) -> Any:
    """Return the request message that a path, its query and its body mean together."""
    message = request_class(route.rpc)()
    query = {name: value for name, value in request.query_params.items() if not name.startswith(("$", "alt"))}
    try:
        json_format.ParseDict({**body, **query}, message)
    except json_format.ParseError as error:
        raise BrokerError(Code.INVALID_ARGUMENT, f"Invalid JSON payload received. {error}") from error
    owner, _, last = route.field.rpartition(".")
    setattr(getattr(message, owner) if owner else message, last, _name_in(route, request))
    return message


def _name_in(route: RestRoute, request: Request) -> str:
    if route.field == "project":
        return f"projects/{request.path_params['project']}"
    kind = route.path.split("/")[2]
    return f"projects/{request.path_params['project']}/{kind}/{request.path_params['id']}"
