"""Which method and path of Compute Engine means what."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from standins.google.api import read_object
from standins.google.errors import HTTP, ApiError, json_response, list_errors
from standins.google.gke.compute import Compute, InstanceGroups, Templates, describe_operation
from standins.google.gke.model.fake_gke import FakeGke

_PROJECT = "/compute/v1/projects/{project}"
_PLACES = (f"{_PROJECT}/zones/{{zone}}", f"{_PROJECT}/regions/{{region}}")
_POLICIES = f"{_PROJECT}/regions/{{region}}/resourcePolicies"


class ComputeRest:
    """The routes under /compute/v1/."""

    def __init__(self, gke: FakeGke) -> None:
        self._world = gke.world
        self._compute = Compute(gke.world)
        self._templates = Templates(gke.world)
        self._groups = InstanceGroups(gke.world, gke.growth)

    def routes(self) -> list[Route]:
        """Return the routes; paths that are not among them are unknown to the fake."""
        compute = self._compute
        return [
            *(route for place in _PLACES for route in self._routes_at(place)),
            _route(
                "GET",
                f"{_PROJECT}/global/instanceTemplates/{{name}}",
                lambda at, _: self._templates.template(**at),
            ),
            _route(
                "GET",
                f"{_PROJECT}/zones/{{zone}}/machineTypes/{{name}}",
                lambda at, _: self._templates.machine_type(**at),
            ),
            _route("POST", _POLICIES, lambda at, sent: compute.create_policy(**at, body=sent.body)),
            _route("GET", _POLICIES, lambda at, _: _list(compute.policies(**at))),
            _route("GET", f"{_POLICIES}/{{name}}", lambda at, _: compute.policy(**at)),
            _route("DELETE", f"{_POLICIES}/{{name}}", lambda at, _: compute.delete_policy(**at)),
        ]

    def _routes_at(self, place: str) -> list[Route]:
        world, groups = self._world, self._groups
        group, operation = f"{place}/instanceGroupManagers/{{name}}", f"{place}/operations/{{name}}"
        return [
            _route("GET", f"{place}/instanceGroupManagers", lambda at, _: _list(groups.listed(**at))),
            _route("GET", group, lambda at, _: groups.group(**at)),
            _route(
                "POST",
                f"{group}/listManagedInstances",
                lambda at, sent: groups.managed_instances(**at, page=sent.query.get("pageToken", "")),
            ),
            _route("GET", f"{group}/listErrors", lambda at, _: groups.errors(**at)),
            _route(
                "POST", f"{group}/resize", lambda at, sent: groups.resize(**at, size=sent.query.get("size", ""))
            ),
            _route(
                "POST", f"{group}/deleteInstances", lambda at, sent: groups.delete_instances(**at, body=sent.body)
            ),
            _route("GET", operation, lambda at, _: describe_operation(world, **at)),
            _route("POST", f"{operation}/wait", lambda at, _: describe_operation(world, **at)),
        ]


@dataclass(frozen=True)
class _Sent:
    """What a request carries beside its path."""

    body: dict[str, Any]
    query: Mapping[str, str]


def _route(verb: str, path: str, answer: Callable[[dict[str, str], _Sent], dict[str, Any]]) -> Route:
    async def endpoint(request: Request) -> Response:
        try:
            sent = _Sent(read_object(await request.body()), request.query_params)
            return JSONResponse(answer(dict(request.path_params), sent))
        except ApiError as error:
            body = list_errors(error)
            del body["status"]  # Compute Engine writes no canonical code
            return json_response({"error": body}, HTTP[error.code][0])

    handler: Callable[[Request], Awaitable[Response]] = endpoint
    return Route(path, handler, methods=[verb])


def _list(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"items": items}
