"""The REST skin: JSON in and out, errors shaped as Google's.

One Starlette endpoint for the whole API.

Unknown JSON fields and wrong types are refused as the real API refuses them.
"""

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

from google.protobuf import json_format
from starlette.requests import Request
from starlette.responses import Response

from standins.fakegke.errors import HTTP, Code, GkeError, LostReply, invalid
from standins.fakegke.model.fake_gke import FakeGke
from standins.fakegke.model.proto_messages import Message, raw_class
from standins.fakegke.skins.rest_routes import METHODS, match_route
from standins.processes.urls import STAND_IN

_REQUESTS: dict[str, Callable[[], Any]] = {method: raw_class(f"{method}Request") for method in METHODS}
_LOST = {"unavailable": Code.UNAVAILABLE, "deadline": Code.DEADLINE_EXCEEDED}
_UNKNOWN_FIELD = re.compile(r'has no field named "(?P<field>[^"]+)" at "(?P<at>[^"]+)"')
_SYSTEM_PARAMETERS = frozenset(
    {"alt", "$alt", "prettyPrint", "$prettyPrint", "key", "quotaUser", "$.xgafv", "access_token"}
)


class RestSkin:
    """Answers HTTP requests after the virtual time that each call takes.

    `speed` 0 means that time stands still: answer at once. `drop` cuts the connection of a request.
    """

    def __init__(self, gke: FakeGke, speed: float, drop: Callable[[Request], None]) -> None:
        self._gke = gke
        self._speed = speed
        self._drop = drop

    async def endpoint(self, request: Request) -> Response:
        """Answer one request of the API."""
        path = request.url.path
        match = match_route(request.method, path)
        if match is None:
            return _html_404(path)
        try:
            message = _request_message(match.method, match.fields, await request.body())
            _apply_query(message, request)
            if self._speed:
                await asyncio.sleep(self._gke.world.scenario.timings.latency(match.method) / self._speed)
            answer = self._gke.call(match.method, message, _name_skin(request))
        except LostReply as lost:
            if lost.how == "drop":
                self._drop(request)
                return Response(status_code=503)
            return error_response(GkeError(_LOST[lost.how], "The service is currently unavailable."))
        except GkeError as error:
            return error_response(error)
        return _json(_as_json(answer, integers=_wants_integers(request)), 200)


def _name_skin(request: Request) -> str:
    """Return another name for calls of stand-ins, such as the autoscaler's: no user makes them."""
    return STAND_IN if request.headers.get("User-Agent") == STAND_IN else "rest"


def error_response(error: GkeError, *, of_compute: bool = False) -> Response:
    """Return an error as the Google APIs write it; Compute Engine writes no canonical code."""
    status, reason = HTTP[error.code]
    details: list[dict[str, Any]] = []
    if error.request_id:
        details.append({"@type": "type.googleapis.com/google.rpc.RequestInfo", "requestId": error.request_id})
    if error.reason:
        info = {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": error.reason,
            "domain": error.domain,
        }
        details.append({**info, "metadata": error.metadata} if error.metadata else info)
    body: dict[str, Any] = {
        "code": status,
        "message": error.message,
        "errors": [{"message": error.message, "domain": "global", "reason": reason}],
        "status": error.code.name,
    }
    if of_compute:
        del body["status"]
    if details:
        body["details"] = details
    return _json({"error": body}, status)


def read_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object that a body is, empty without one.

    Raises GkeError (INVALID_ARGUMENT) for anything else.
    """
    try:
        data = json.loads(body) if body.strip() else {}
    except ValueError as error:
        raise invalid(f"Invalid JSON payload received. {error}") from error
    if not isinstance(data, dict):
        raise invalid("Invalid JSON payload received. The root must be an object.")
    return data


def _json(body: dict[str, Any], status: int) -> Response:
    text = json.dumps(body, indent=2, ensure_ascii=False) + "\n"
    return Response(text, status_code=status, media_type="application/json; charset=UTF-8")


def _html_404(path: str) -> Response:
    text = f"<!DOCTYPE html><title>Error 404 (Not Found)!!1</title><p>The requested URL {path} was not found."
    return Response(text, status_code=404, media_type="text/html; charset=UTF-8")


def _wants_integers(request: Request) -> bool:
    wanted = request.query_params.get("$alt", "") + request.query_params.get("alt", "")
    return "enum-encoding=int" in wanted


def _request_message(method: str, fields: dict[str, str], body: bytes) -> Message:
    message = _REQUESTS[method]()
    _parse_into(message, read_object(body))
    for name, value in fields.items():
        setattr(message, name, value)
    return message


def _parse_into(message: Message, data: dict[str, Any]) -> None:
    try:
        json_format.ParseDict(data, message)
    except json_format.ParseError as error:
        raise invalid(_parse_text(str(error))) from error


def _parse_text(text: str) -> str:
    unknown = _UNKNOWN_FIELD.search(text)
    if unknown is None:
        return f"Invalid JSON payload received. {text}"
    at = unknown["at"].partition(".")[2]
    snake = re.sub(r"(?<!^)(?=[A-Z])", "_", at).lower()
    where = f" at '{snake}'" if snake else ""
    return f'Invalid JSON payload received. Unknown name "{unknown["field"]}"{where}: Cannot find field.'


def _apply_query(message: Message, request: Request) -> None:
    known = {field.json_name: field.name for field in message.DESCRIPTOR.fields}
    known.update({field.name: field.name for field in message.DESCRIPTOR.fields})
    for key, value in request.query_params.items():
        if key in known:
            setattr(message, known[key], value)
        elif key not in _SYSTEM_PARAMETERS:
            raise invalid(f'Invalid JSON payload received. Unknown name "{key}": Cannot bind query parameter.')


def _as_json(answer: Message, *, integers: bool) -> dict[str, Any]:
    return dict(json_format.MessageToDict(answer, use_integers_for_enums=integers))
