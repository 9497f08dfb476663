"""One API of Google: its routes, methods and types, as data in Google's own client.

A client of an API carries for each method which verb and path it has over REST (its `rest_base`
module), and the types of its messages. So nothing is written down here twice: a request is matched,
read into its message, answered by the model, and written as JSON. Unknown fields and wrong types
are refused as the real APIs refuse them.
"""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeAlias

import grpc
from google.protobuf import json_format
from starlette.requests import Request
from starlette.responses import Response

from standins.google.errors import ApiError, Code, error_response, json_response
from standins.kit.http_server import listen

Message: TypeAlias = Any  # a protobuf message; the classes are made at run time
_BASE = "_Base"
_VARIABLE = re.compile(r"\{([\w.]+)=([^}]+)\}")
_DEPRECATED = "/zones/"
_UNKNOWN_FIELD = re.compile(r'has no field named "(?P<field>[^"]+)" at "(?P<at>[^"]+)"')
_SYSTEM_PARAMETERS = frozenset(
    {"alt", "$alt", "prettyPrint", "$prettyPrint", "key", "quotaUser", "$.xgafv", "access_token"}
)
WAIT_SECONDS, MARGIN_SECONDS = 5.0, 0.3
"""How long an answer waits at most, and how long before its caller gives up."""
HOST = "127.0.0.1"
MAX_MESSAGE_BYTES = 32 * 1024 * 1024
# Two servers share the port for the moment in which one takes over from the other.
OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 1),
]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and how long it waits for an answer that may take a while."""

    patience_seconds: float = WAIT_SECONDS
    request: Request | None = None  # None over gRPC


Answer: TypeAlias = Callable[[str, Message, Caller], Awaitable[Message]]
"""Answers a method's request message; raises ApiError."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to call a method over REST."""

    verb: str
    path: re.Pattern[str]
    fields: tuple[str, ...]  # the fields of the request that the path fills in
    method: str
    request: Any  # the class of its requests


def read_rules(transports: Iterable[type], types: ModuleType) -> Iterator[Rule]:
    """Yield the rules of an API, from the base classes of its client's REST transports."""
    for transport in transports:
        for name, spec in vars(transport).items():
            method, options = name.removeprefix(_BASE), getattr(spec, "_get_http_options", None)
            request = find_request(types, method) if options else None
            for option in options() if options and request else ():
                if _DEPRECATED not in option["uri"]:
                    path, fields = _compile(option["uri"])
                    yield Rule(option["method"].upper(), path, fields, method, request)


def find_request(types: ModuleType, method: str) -> Any:
    """Return the class of a method's requests; None if it is of another API (such as IAM)."""
    # CreateTopic and its like take the resource itself.
    wrapper = getattr(types, f"{method}Request", None) or getattr(types, method.removeprefix("Create"), None)
    return wrapper.pb() if wrapper is not None else None


def _compile(uri: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """Return a path like ``/v1/{name=projects/*/topics/*}:publish`` as a pattern and fields."""
    pattern, position, fields = "", 0, list[str]()
    for variable in _VARIABLE.finditer(uri):
        name, value = variable.groups()
        value = re.escape(value).replace(re.escape("*"), "[^/:]+")
        pattern += f"{re.escape(uri[position : variable.start()])}({value})"
        position = variable.end()
        fields.append(name)
    return re.compile(pattern + re.escape(uri[position:])), tuple(fields)


class Api:
    """Answers the requests of one API; with `lists` it writes refusals in the older form, too."""

    def __init__(self, rules: Iterable[Rule], answer: Answer, *, lists: bool = False) -> None:
        self.rules = list(rules)
        self.answer, self._lists = answer, lists

    def find(self, request: Request) -> tuple[Rule, tuple[str, ...]] | None:
        """Return the rule that a request means and what its path fills in; None if none is."""
        for rule in self.rules:
            match = rule.path.fullmatch(request.url.path) if request.method == rule.verb else None
            if match is not None:
                return rule, match.groups()
        return None

    async def respond(self, rule: Rule, names: tuple[str, ...], request: Request) -> Response:
        """Answer a request that `find` has found."""
        try:
            message = _read_message(rule, names, request, read_object(await request.body()))
            answer = await self.answer(rule.method, message, Caller(request=request))
        except ApiError as error:
            return error_response(error, listed=self._lists)
        wanted = request.query_params.get("$alt", "") + request.query_params.get("alt", "")
        integers = "enum-encoding=int" in wanted
        return json_response(dict(json_format.MessageToDict(answer, use_integers_for_enums=integers)))


def read_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object that a body is, empty without one.

    Raises ApiError (INVALID_ARGUMENT) for anything else.
    """
    try:
        data = json.loads(body) if body.strip() else {}
    except ValueError as error:
        raise _invalid(str(error)) from error
    if not isinstance(data, dict):
        raise _invalid("The root must be an object.")
    return data


def _read_message(rule: Rule, names: tuple[str, ...], request: Request, body: dict[str, Any]) -> Message:
    message = rule.request()
    try:
        json_format.ParseDict({**body, **_read_query(message, request)}, message)
    except json_format.ParseError as error:
        raise _invalid(_describe_parse(str(error))) from error
    for path, value in zip(rule.fields, names, strict=True):
        owner, _, last = path.rpartition(".")
        setattr(getattr(message, owner) if owner else message, last, value)
    return message


def _read_query(message: Message, request: Request) -> dict[str, Any]:
    """Return the fields that the query sets; raises ApiError for one that does not exist."""
    fields = {name: field for field in message.DESCRIPTOR.fields for name in (field.json_name, field.name)}
    query: dict[str, Any] = {}
    for key in request.query_params:
        if key in fields:
            values = request.query_params.getlist(key)
            query[fields[key].json_name] = values if fields[key].is_repeated else values[-1]
        elif key not in _SYSTEM_PARAMETERS:
            raise _invalid(f'Unknown name "{key}": Cannot bind query parameter.')
    return query


def _describe_parse(text: str) -> str:
    unknown = _UNKNOWN_FIELD.search(text)
    if unknown is None:
        return text
    at = unknown["at"].partition(".")[2]
    snake = re.sub(r"(?<!^)(?=[A-Z])", "_", at).lower()
    where = f" at '{snake}'" if snake else ""
    return f'Unknown name "{unknown["field"]}"{where}: Cannot find field.'


def _invalid(text: str) -> ApiError:
    return ApiError(Code.INVALID_ARGUMENT, f"Invalid JSON payload received. {text}")


class GrpcFront:
    """Serves the methods that the rules of services name, on one gRPC port of 127.0.0.1.

    It can drop every client connection and listen again on the same port, as a service that
    restarts would. `services` are the rules of each, by its full name; `answer` is the model.
    """

    def __init__(self, services: dict[str, list[Rule]], answer: Answer) -> None:
        self._services, self._answer = services, answer
        self._server: Any = None
        self.port = 0

    async def start(self, port: int) -> None:
        """Listen on the port, 0 for a free one. Raises PortTaken when it is taken."""
        self.port = _free_port(port)
        self._server = await self._listening()

    async def stop(self) -> None:
        """Close every connection and stop listening."""
        if self._server is not None:
            await self._server.stop(grace=None)
            self._server = None

    async def drop_connections(self) -> None:
        """Close every connection.

        The port never stops listening, so clients may come back at once.
        """
        old, self._server = self._server, await self._listening()
        if old is not None:
            await old.stop(grace=None)

    async def _listening(self) -> Any:
        server = grpc.aio.server(options=OPTIONS)
        server.add_generic_rpc_handlers(
            tuple(
                grpc.method_handlers_generic_handler(name, {rule.method: self._handler(rule) for rule in rules})
                for name, rules in self._services.items()
            )
        )
        server.add_insecure_port(f"{HOST}:{self.port}")
        await server.start()
        return server

    def _handler(self, rule: Rule) -> Any:
        async def call(request: Any, context: Any) -> Any:
            try:
                return await self._answer(rule.method, request, Caller(_patience(context)))
            except ApiError as error:
                await context.abort(error.code, error.message)

        return grpc.unary_unary_rpc_method_handler(
            call,
            request_deserializer=rule.request.FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )


def _free_port(port: int) -> int:
    """Return the port, or a free one for 0.

    Raises PortTaken when it is taken, which gRPC's sharing would hide.
    """
    with listen(port) as probe:
        return int(probe.getsockname()[1])


def _patience(context: Any) -> float:
    """Return how many real seconds an answer may wait: not longer than its caller does."""
    remaining = context.time_remaining()
    if remaining is None:
        return WAIT_SECONDS
    return float(min(WAIT_SECONDS, max(0.0, remaining - MARGIN_SECONDS)))
