"""Compute Engine's side of node pools: instance groups.

What is answered here is in the form of https://cloud.google.com/compute/docs/reference/rest/v1,
below ``/compute/v1/``; other paths are unknown to the fake. Which node a group would add, which
Google's autoscaler reads in instance templates, is a Node object below ``/admin/``.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from standins.google.api import read_object
from standins.google.errors import ApiError, Code, error_response
from standins.google.gke.clock import rfc3339
from standins.google.gke.fake_gke import FakeGke
from standins.google.gke.names import invalid, invalid_field
from standins.google.gke.nodes import CallMade, node_object
from standins.google.gke.pools import PoolStatus
from standins.google.gke.state import ClusterRecord, InstanceError, PastError, PoolRecord
from standins.google.gke.supply import group_name, group_url

Json = dict[str, Any]
API = "https://www.googleapis.com/compute/v1"
_GROUP = "/compute/v1/projects/{project}/zones/{zone}/instanceGroupManagers/{name}"
_PAGE_MAX = 500


class InstanceGroups:
    """Answers about the instance groups of the pools."""

    def __init__(self, gke: FakeGke) -> None:
        self._world, self._supply = gke.world, gke.supply

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            _route("GET", f"/admin{_GROUP}", lambda at, _: self.template(**at)),
            _route("GET", _GROUP, lambda at, _: self.group(**at)),
            _route("GET", f"{_GROUP}/listErrors", lambda at, _: self.errors(**at)),
            _route(
                "POST",
                f"{_GROUP}/listManagedInstances",
                lambda at, options: self.managed_instances(**at, page=options.get("pageToken", "")),
            ),
            _route(
                "POST", f"{_GROUP}/resize", lambda at, options: self.resize(**at, size=options.get("size", ""))
            ),
            _route(
                "POST", f"{_GROUP}/deleteInstances", lambda at, options: self.delete_instances(**at, body=options)
            ),
        ]

    def template(self, project: str, zone: str, name: str) -> Json:
        """Return the Node object of a host that a group would add; raises ApiError (NOT_FOUND)."""
        cluster, pool = self._find("template", project, zone, name)
        shape = pool.shape
        node = node_object(cluster.name, pool.message, shape.machine, shape.topology, (name, zone)).manifest
        del node["metadata"]["labels"]["kubernetes.io/hostname"]
        return node

    def group(self, project: str, zone: str, name: str) -> Json:
        """Return one group; raises ApiError (NOT_FOUND)."""
        cluster, pool = self._find("get", project, zone, name)
        url = group_url(cluster, pool, zone)
        states = [state for _, state in self._states(pool, zone)]
        return {
            "kind": "compute#instanceGroupManager",
            "name": url.rpartition("/")[2],
            "baseInstanceName": group_name(cluster, pool, zone),
            "zone": url.partition("/instanceGroupManagers/")[0],
            "targetSize": len(states),
            "status": self._describe_status(pool, zone, states),
            "instanceGroup": url.replace("/instanceGroupManagers/", "/instanceGroups/"),
            "selfLink": url,
            "listManagedInstancesResults": "PAGINATED",
            "targetSizePolicy": {"mode": "BULK" if pool.shape.atomic else "INDIVIDUAL"},
        }

    def managed_instances(self, project: str, zone: str, name: str, page: str = "") -> Json:
        """Return instances of a group: those that are up, that come, and that cannot be made.

        They come in pages, whose token is the number of the first. The group goes on trying to make
        the last ones, until their creation is given up by `delete_instances` or `resize`:
        https://cloud.google.com/compute/docs/reference/rest/v1/instanceGroupManagers/listManagedInstances.
        """
        _, pool = self._find("listManagedInstances", project, zone, name)
        states = self._states(pool, zone)
        rows = [{"name": each, "instance": _instance_url(project, zone, each), **state} for each, state in states]
        if page and not (page.isdigit() and int(page) < len(rows)):
            raise invalid_field("pageToken", page, "Must be the token of an answer.")
        begin = int(page or 0)
        end = begin + _PAGE_MAX
        return {"managedInstances": rows[begin:end]} | ({"nextPageToken": str(end)} if end < len(rows) else {})

    def errors(self, project: str, zone: str, name: str) -> Json:
        """Return the last errors of a group, also of instances that were given up."""
        _, pool = self._find("listErrors", project, zone, name)
        past = [each for each in pool.list_errors(self._world.now) if each.zone == zone]
        return {"items": [self._describe_error(project, each) for each in past]}

    def resize(self, project: str, zone: str, name: str, size: str) -> Json:
        """Let a group keep another number of instances, and return the operation.

        New ones come when there are machines; a slice takes all of its hosts or none.

        Raises ApiError for a size that the group cannot have.
        """
        cluster, pool = self._find("resize", project, zone, name)
        if not size.isdigit():
            raise invalid_field("size", size, "Must be a whole number from 0.")
        if pool.shape.atomic and int(size) not in (0, pool.shape.hosts):
            raise invalid(
                f"Invalid value for field 'size': '{size}'. Requested invalid target size '{size}' for a Managed "
                f"Instance Group in the gang mode of size '{pool.shape.hosts}'. Should be equal to the gang size."
            )
        if pool.status == PoolStatus.STOPPING:
            raise invalid(f"The resource '{_path(project, zone, name)}' is not ready")
        names = _names(pool, zone)
        if int(size) > len(names):
            self._supply.grow(cluster, pool, int(size) - len(names), [zone])
        else:
            self._supply.shrink(cluster, pool, list(reversed(names))[: len(names) - int(size)])
        return self._describe_operation(project, zone)

    def delete_instances(self, project: str, zone: str, name: str, body: Mapping[str, Any]) -> Json:
        """Remove exactly the named instances of a group, which keeps so many fewer from now on.

        The pool's status stays as it is: what GKE reports then is not known.

        Raises ApiError for an instance that is not one of the group's; then none is removed.
        """
        cluster, pool = self._find("deleteInstances", project, zone, name)
        wanted = [str(each).rpartition("/")[2] for each in body.get("instances") or []]
        if not wanted:
            raise invalid_field("instances", "", "At least one instance is required.")
        for each in wanted:
            if pool.zone_of(each) != zone:
                raise invalid_field("instances", each, f"Instance is not a member of {name}.")
        self._supply.shrink(cluster, pool, wanted)
        return self._describe_operation(project, zone)

    def _find(self, method: str, project: str, zone: str, name: str) -> tuple[ClusterRecord, PoolRecord]:
        """Return a group's pool, and tell of the call by which it is asked for.

        Raises ApiError (NOT_FOUND).
        """
        world = self._world
        for cluster, pool in world.pools:
            mine = cluster.name.project == project and zone in pool.zones
            if mine and name == f"{group_name(cluster, pool, zone)}-grp":
                called, when = f"compute.instanceGroupManagers.{method}", world.clock.wall(world.now)
                world.tell(CallMade(called, cluster.name.cluster, pool.name, "rest", Code.OK.name, when))
                return cluster, pool
        raise ApiError(Code.NOT_FOUND, f"The resource '{_path(project, zone, name)}' was not found")

    def _describe_operation(self, project: str, zone: str) -> Json:
        """Return an operation of a zone, which ends at once here."""
        name = f"operation-{self._world.new_uuid('compute')}"
        place = f"{API}/projects/{project}/zones/{zone}"
        link = f"{place}/operations/{name}"
        done = {"kind": "compute#operation", "name": name, "status": "DONE", "progress": 100}
        return {**done, "zone": place, "selfLink": link}

    def _describe_status(self, pool: PoolRecord, zone: str, states: list[Json]) -> Json:
        moving = any(each["currentAction"] != "NONE" for each in states)
        status: Json = {"isStable": not moving, "versionTarget": {"isReached": True}}
        if pool.shape.atomic:
            status["bulkInstanceOperation"] = {"inProgress": moving} | self._describe_check(pool, zone)
        return status

    def _describe_check(self, pool: PoolRecord, zone: str) -> Json:
        errors = [each for each in pool.list_errors(self._world.now) if each.instance in pool.waiting]
        if not errors or zone not in pool.waiting.values():
            return {}
        timestamp = rfc3339(self._world.clock.wall(errors[-1].at))
        return {"lastProgressCheck": {"timestamp": timestamp, "error": {"errors": [_error(errors[-1].error)]}}}

    def _states(self, pool: PoolRecord, zone: str) -> Iterator[tuple[str, Json]]:
        """Return each instance of a group with its state and action."""
        now = self._world.now
        wait = pool.wait
        attempt: Json = {}
        if wait is not None and wait.last_try(now) is not None:
            attempt = {"lastAttempt": {"errors": {"errors": [_error(wait.error)]}}}
        for name in _names(pool, zone):
            if name in pool.waiting:
                yield name, {"currentAction": "CREATING", **attempt}
            else:
                state = pool.coming[name].status_at(now) if name in pool.coming else "RUNNING"
                action = "NONE" if state == "RUNNING" else "CREATING"
                yield name, {"currentAction": action, "instanceStatus": state}

    def _describe_error(self, project: str, past: PastError) -> Json:
        url = _instance_url(project, past.zone, past.instance)
        return {
            "error": _error(past.error),
            "timestamp": rfc3339(self._world.clock.wall(past.at)),
            "instanceActionDetails": {"action": "CREATING", "instance": url},
        }


def _route(verb: str, path: str, answer: Callable[[dict[str, str], Mapping[str, Any]], Json]) -> Route:
    async def endpoint(request: Request) -> Response:
        try:
            options = {**request.query_params, **read_object(await request.body())}
            return JSONResponse(answer(dict(request.path_params), options))
        except ApiError as error:
            return error_response(error, listed=True, canonical=False)

    handler: Callable[[Request], Awaitable[Response]] = endpoint
    return Route(path, handler, methods=[verb])


def _names(pool: PoolRecord, zone: str) -> list[str]:
    """Return the instances of a group: the nodes, those that come, and then those that wait."""
    return [name for name in (*pool.nodes, *pool.coming, *pool.waiting) if pool.zone_of(name) == zone]


def _error(error: InstanceError | None) -> Json:
    return {"code": error.code, "message": error.message} if error is not None else {}


def _instance_url(project: str, zone: str, name: str) -> str:
    return f"{API}/projects/{project}/zones/{zone}/instances/{name}"


def _path(project: str, zone: str, name: str) -> str:
    return f"projects/{project}/zones/{zone}/instanceGroupManagers/{name}"
