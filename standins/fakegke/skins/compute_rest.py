"""Which method and path of Compute Engine means what, and the answers as JSON.

What is kept is in `compute`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse
from starlette.routing import Route

from standins.fakegke.errors import GkeError, invalid
from standins.fakegke.skins.rest_skin import error_response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from standins.fakegke.model.compute import Compute

_ZONE = "/compute/v1/projects/{project}/zones/{zone}"
_REGION = "/compute/v1/projects/{project}/regions/{region}"
_POLICIES = f"{_REGION}/resourcePolicies"
_OPERATION = f"{_REGION}/operations/{{name}}"


class ComputeRest:
    """The routes under /compute/v1/."""

    def __init__(self, compute: Compute) -> None:
        self._compute = compute

    def routes(self) -> list[Route]:
        """Return the routes; paths that are not among them are unknown to the fake."""
        compute = self._compute
        return [
            _route("GET", f"{_ZONE}/instanceGroupManagers", lambda at, _: _list(compute.instance_groups(**at))),
            _route("GET", f"{_ZONE}/instanceGroupManagers/{{name}}", lambda at, _: compute.instance_group(**at)),
            _route(
                "POST",
                f"{_ZONE}/instanceGroupManagers/{{name}}/deleteInstances",
                lambda at, body: compute.delete_instances(**at, body=body),
            ),
            _route(
                "POST",
                f"{_ZONE}/instanceGroupManagers/{{name}}/listManagedInstances",
                lambda at, _: compute.managed_instances(**at),
            ),
            _route("POST", _POLICIES, lambda at, body: compute.create_policy(**at, body=body)),
            _route("GET", _POLICIES, lambda at, _: _list(compute.policies(**at))),
            _route("GET", f"{_POLICIES}/{{name}}", lambda at, _: compute.policy(**at)),
            _route("DELETE", f"{_POLICIES}/{{name}}", lambda at, _: compute.delete_policy(**at)),
            _route("GET", _OPERATION, lambda at, _: compute.operation(**at)),
            _route("POST", f"{_OPERATION}/wait", lambda at, _: compute.operation(**at)),
        ]


def _route(verb: str, path: str, answer: Callable[[dict[str, str], dict[str, Any]], dict[str, Any]]) -> Route:
    async def endpoint(request: Request) -> Response:
        try:
            return JSONResponse(answer(dict(request.path_params), await _body(request)))
        except GkeError as error:
            return error_response(error)

    handler: Callable[[Request], Awaitable[Response]] = endpoint
    return Route(path, handler, methods=[verb])


async def _body(request: Request) -> dict[str, Any]:
    text = await request.body()
    try:
        data = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise invalid(f"Invalid JSON payload received. {error}") from error
    if not isinstance(data, dict):
        raise invalid("Invalid JSON payload received. The root must be an object.")
    return data


def _list(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"items": items}
