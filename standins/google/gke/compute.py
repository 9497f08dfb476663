"""Compute Engine's side of node pools: instance groups.

What is answered here is in the form of https://cloud.google.com/compute/docs/reference/rest/v1,
below ``/compute/v1/``; other paths are unknown to the fake. Which node a group would add, which
Google's autoscaler reads in instance templates, is a Node object below ``/admin/``.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Group:
    """The instances of a pool in one zone."""

    cluster: ClusterRecord
    pool: PoolRecord
    zone: str

    @property
    def url(self) -> str:
        """Return the URL by which the pool names it."""
        return group_url(self.cluster, self.pool, self.zone)

    def list_names(self) -> list[str]:
        """Return its instances: the nodes, those that come, and then those that wait."""
        pool = self.pool
        return [name for name in (*pool.nodes, *pool.coming, *pool.waiting) if pool.zone_of(name) == self.zone]

    def instance_url(self, name: str) -> str:
        """Return the URL of one of its instances."""
        return f"{API}/projects/{self.cluster.name.project}/zones/{self.zone}/instances/{name}"


class InstanceGroups:
    """Answers about the instance groups of the pools."""

    def __init__(self, gke: FakeGke) -> None:
        self._world, self._supply = gke.world, gke.supply
        self._answers: dict[str, Callable[[Group, Mapping[str, Any]], Json]] = {
            "GET template": self._template,
            "GET get": self._get,
            "GET listErrors": self._list_errors,
            "POST listManagedInstances": self._list_instances,
            "POST resize": self._resize,
            "POST deleteInstances": self._delete_instances,
        }
        """By verb and method."""

    def routes(self) -> list[Route]:
        """Return the routes."""
        paths = {"get": _GROUP, "template": f"/admin{_GROUP}"}
        return [
            Route(paths.get(method, f"{_GROUP}/{method}"), self._serve(key), methods=[verb])
            for key in self._answers
            for verb, _, method in [key.partition(" ")]
        ]

    def _serve(self, key: str) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                options = {**request.query_params, **read_object(await request.body())}
                return JSONResponse(self.call(key, **request.path_params, options=options))
            except ApiError as error:
                return error_response(error, listed=True, canonical=False)

        return endpoint

    def call(self, key: str, *, project: str, zone: str, name: str, options: Mapping[str, Any]) -> Json:
        """Answer one call, such as ``GET listErrors``, and tell of it.

        Raises ApiError: there is no such group, or the call is refused.
        """
        world = self._world
        for cluster, pool in world.pools:
            mine = cluster.name.project == project and zone in pool.zones
            if mine and name == f"{group_name(cluster, pool, zone)}-grp":
                method, when = key.partition(" ")[2], world.clock.wall(world.now)
                called = f"compute.instanceGroupManagers.{method}"
                world.tell(CallMade(called, cluster.name.cluster, pool.name, "rest", Code.OK.name, when))
                return self._answers[key](Group(cluster, pool, zone), options)
        path = f"projects/{project}/zones/{zone}/instanceGroupManagers/{name}"
        raise ApiError(Code.NOT_FOUND, f"The resource '{path}' was not found")

    def _template(self, group: Group, _: Mapping[str, Any]) -> Json:
        """Return the Node object of a host that a group would add."""
        shape, place = group.pool.shape, (group.url.rpartition("/")[2], group.zone)
        node = node_object(group.cluster.name, group.pool.message, shape.machine, shape.topology, place).manifest
        del node["metadata"]["labels"]["kubernetes.io/hostname"]
        return node

    def _get(self, group: Group, _: Mapping[str, Any]) -> Json:
        states = [state for _, state in self._states(group)]
        return {
            "kind": "compute#instanceGroupManager",
            "name": group.url.rpartition("/")[2],
            "baseInstanceName": group_name(group.cluster, group.pool, group.zone),
            "zone": group.url.partition("/instanceGroupManagers/")[0],
            "targetSize": len(states),
            "status": self._describe_status(group, states),
            "instanceGroup": group.url.replace("/instanceGroupManagers/", "/instanceGroups/"),
            "selfLink": group.url,
            "listManagedInstancesResults": "PAGINATED",
            "targetSizePolicy": {"mode": "BULK" if group.pool.shape.atomic else "INDIVIDUAL"},
        }

    def _list_instances(self, group: Group, _: Mapping[str, Any]) -> Json:
        """Return the instances of a group: those that are up, that come, and that cannot be made.

        The group goes on trying to make the last ones, until their creation is given up by
        `deleteInstances` or `resize`:
        https://cloud.google.com/compute/docs/reference/rest/v1/instanceGroupManagers/listManagedInstances.
        """
        rows = [
            {"name": name, "instance": group.instance_url(name), **state} for name, state in self._states(group)
        ]
        return {"managedInstances": rows}

    def _list_errors(self, group: Group, _: Mapping[str, Any]) -> Json:
        """Return the last errors of a group, also of instances that were given up."""
        past = [each for each in group.pool.list_errors(self._world.now) if each.zone == group.zone]
        return {"items": [self._describe_error(group, each) for each in past]}

    def _resize(self, group: Group, options: Mapping[str, Any]) -> Json:
        """Let a group keep another number of instances, and return the operation.

        New ones come when there are machines; a slice takes all of its hosts or none.
        """
        pool, size = group.pool, str(options.get("size", ""))
        if not size.isdigit():
            raise invalid_field("size", size, "Must be a whole number from 0.")
        if pool.shape.atomic and int(size) not in (0, pool.shape.hosts):
            raise invalid(
                f"Invalid value for field 'size': '{size}'. Requested invalid target size '{size}' for a Managed "
                f"Instance Group in the gang mode of size '{pool.shape.hosts}'. Should be equal to the gang size."
            )
        if pool.status == PoolStatus.STOPPING:
            raise invalid(f"The resource '{group.url.removeprefix(API + '/')}' is not ready")
        names = group.list_names()
        if int(size) > len(names):
            self._supply.grow(group.cluster, pool, int(size) - len(names), [group.zone])
        else:
            self._supply.shrink(group.cluster, pool, list(reversed(names))[: len(names) - int(size)])
        return self._describe_operation(group)

    def _delete_instances(self, group: Group, options: Mapping[str, Any]) -> Json:
        """Remove exactly the named instances of a group, which keeps so many fewer from now on.

        The pool's status stays as it is: what GKE reports then is not known. If one of them is not
        the group's, none is removed.
        """
        wanted = [str(each).rpartition("/")[2] for each in options.get("instances") or []]
        if not wanted:
            raise invalid_field("instances", "", "At least one instance is required.")
        for each in wanted:
            if group.pool.zone_of(each) != group.zone:
                raise invalid_field("instances", each, "Instance is not a member of the group.")
        self._supply.shrink(group.cluster, group.pool, wanted)
        return self._describe_operation(group)

    def _describe_operation(self, group: Group) -> Json:
        """Return an operation of a zone, which ends at once here."""
        name, place = (
            f"operation-{self._world.new_uuid('compute')}",
            group.url.partition("/instanceGroupManagers/")[0],
        )
        done = {"kind": "compute#operation", "name": name, "status": "DONE", "progress": 100}
        return {**done, "zone": place, "selfLink": f"{place}/operations/{name}"}

    def _describe_status(self, group: Group, states: list[Json]) -> Json:
        moving = any(each["currentAction"] != "NONE" for each in states)
        status: Json = {"isStable": not moving, "versionTarget": {"isReached": True}}
        if group.pool.shape.atomic:
            status["bulkInstanceOperation"] = {"inProgress": moving} | self._describe_check(group)
        return status

    def _describe_check(self, group: Group) -> Json:
        pool = group.pool
        errors = [each for each in pool.list_errors(self._world.now) if each.instance in pool.waiting]
        if not errors or group.zone not in pool.waiting.values():
            return {}
        timestamp = rfc3339(self._world.clock.wall(errors[-1].at))
        return {"lastProgressCheck": {"timestamp": timestamp, "error": {"errors": [_error(errors[-1].error)]}}}

    def _states(self, group: Group) -> Iterator[tuple[str, Json]]:
        """Yield each instance of a group with its state and action."""
        now, pool = self._world.now, group.pool
        wait = pool.wait
        attempt: Json = {}
        if wait is not None and wait.last_try(now) is not None:
            attempt = {"lastAttempt": {"errors": {"errors": [_error(wait.error)]}}}
        for name in group.list_names():
            if name in pool.waiting:
                yield name, {"currentAction": "CREATING", **attempt}
            else:
                state = pool.coming[name].status_at(now) if name in pool.coming else "RUNNING"
                action = "NONE" if state == "RUNNING" else "CREATING"
                yield name, {"currentAction": action, "instanceStatus": state}

    def _describe_error(self, group: Group, past: PastError) -> Json:
        return {
            "error": _error(past.error),
            "timestamp": rfc3339(self._world.clock.wall(past.at)),
            "instanceActionDetails": {"action": "CREATING", "instance": group.instance_url(past.instance)},
        }


def _error(error: InstanceError | None) -> Json:
    return {"code": error.code, "message": error.message} if error is not None else {}
