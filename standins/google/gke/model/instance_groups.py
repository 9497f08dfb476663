"""The managed instance groups of the pools, as Compute Engine's API shows and changes them.

What a group says while GKE still tries is in its status, its instances and its errors:
https://cloud.google.com/compute/docs/reference/rest/v1/instanceGroupManagers. A group of GKE is
zonal; the same calls answer below its region too. Operations end at once. What a size means for
a pool is decided in `growth`.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from standins.google.errors import ApiError, Code
from standins.google.gke.errors import invalid, invalid_field
from standins.google.gke.model.clock import rfc3339
from standins.google.gke.model.compute import API, describe_operation
from standins.google.gke.model.fleet import group_name, group_urls
from standins.google.gke.model.growth import Growth
from standins.google.gke.model.instances import InstanceError, PastError
from standins.google.gke.model.node_events import CallMade
from standins.google.gke.model.proto_messages import PoolStatus
from standins.google.gke.model.state import ClusterRecord, PoolRecord, World
from standins.google.gke.resource_names import region_of

Json = dict[str, Any]
_PAGE_MAX = 500
_ACTIONS = (
    "abandoning", "creating", "creatingWithoutRetries", "deleting", "none", "recreating", "refreshing",
    "restarting", "resuming", "starting", "stopping", "suspending", "verifying",
)  # fmt: skip
_STATES = (
    "deprovisioning", "nonExistent", "pending", "pendingStop", "provisioning", "repairing", "running", "staging",
    "stopped", "stopping", "suspended", "suspending", "terminated",
)  # fmt: skip
_MADE = {"currentAction": "NONE", "instanceStatus": "RUNNING"}


class InstanceGroups:
    """Answers for the instance groups of the pools. A place is a zone or a region."""

    def __init__(self, world: World, growth: Growth) -> None:
        self._world = world
        self._growth = growth

    def listed(self, project: str, *, zone: str = "", region: str = "") -> list[Json]:
        """Return the groups of every pool at a place."""
        return [
            self._describe(cluster, pool, at, region)
            for cluster, pool, at in self._groups(project)
            if at == zone or region_of(at) == region
        ]

    def group(self, project: str, name: str, *, zone: str = "", region: str = "") -> Json:
        """Return one group; raises ApiError (NOT_FOUND)."""
        return self._describe(*self._find("get", project, name, zone, region), region)

    def managed_instances(
        self, project: str, name: str, *, page: str = "", zone: str = "", region: str = ""
    ) -> Json:
        """Return instances of a group: those that are up, that come, and that cannot be made.

        They come in pages, whose token is the number of the first. The group goes on trying to make
        the last ones, until their creation is given up by `delete_instances` or `resize`:
        https://cloud.google.com/compute/docs/reference/rest/v1/instanceGroupManagers/listManagedInstances.
        """
        _, pool, at = self._find("listManagedInstances", project, name, zone, region)
        rows = [
            {"name": each, "instance": _instance_url(project, at, each), **state}
            for each, state in self._states(pool, at)
        ]
        if page and not (page.isdigit() and int(page) < len(rows)):
            raise invalid_field("pageToken", page, "Must be the token of an answer.")
        begin = int(page or 0)
        end = begin + _PAGE_MAX
        return {"managedInstances": rows[begin:end]} | ({"nextPageToken": str(end)} if end < len(rows) else {})

    def errors(self, project: str, name: str, *, zone: str = "", region: str = "") -> Json:
        """Return the last errors of a group, also of instances that were given up."""
        _, pool, at = self._find("listErrors", project, name, zone, region)
        found = [each for each in pool.list_errors(self._world.now) if each.zone == at]
        return {"items": [self._error_item(project, each) for each in found]}

    def resize(self, project: str, name: str, *, size: str, zone: str = "", region: str = "") -> Json:
        """Let a group keep another number of instances, and return the operation.

        New ones come when there are machines; a slice takes all of its hosts or none.

        Raises ApiError for a size that the group cannot have.
        """
        cluster, pool, at = self._find("resize", project, name, zone, region)
        if not size.isdigit():
            raise invalid_field("size", size, "Must be a whole number from 0.")
        if pool.shape.atomic and int(size) not in (0, pool.shape.hosts):
            raise invalid(
                f"Invalid value for field 'size': '{size}'. Requested invalid target size '{size}' for a Managed "
                f"Instance Group in the gang mode of size '{pool.shape.hosts}'. Should be equal to the gang size."
            )
        if pool.status == PoolStatus.STOPPING:
            raise invalid(f"The resource '{_path(project, zone, region, name)}' is not ready")
        names = _names(pool, at)
        if int(size) > len(names):
            self._growth.grow(cluster, pool, int(size) - len(names), [at])
        else:
            self._growth.shrink(cluster, pool, list(reversed(names))[: len(names) - int(size)])
        return describe_operation(self._world, project, zone=zone, region=region)

    def delete_instances(self, project: str, name: str, body: Json, *, zone: str = "", region: str = "") -> Json:
        """Remove exactly the named instances of a group, which keeps so many fewer from now on.

        The pool's status stays as it is: what GKE reports then is not known.

        Raises ApiError for an instance that is not one of the group's; then none is removed.
        """
        cluster, pool, at = self._find("deleteInstances", project, name, zone, region)
        wanted = [str(each).rsplit("/", 1)[-1] for each in body.get("instances") or []]
        if not wanted:
            raise invalid_field("instances", "", "At least one instance is required.")
        for each in wanted:
            if pool.zone_of(each) != at:
                raise invalid_field("instances", each, f"Instance is not a member of {name}.")
        self._growth.shrink(cluster, pool, wanted)
        return describe_operation(self._world, project, zone=zone, region=region)

    def _groups(self, project: str) -> Iterator[tuple[ClusterRecord, PoolRecord, str]]:
        for cluster in self._world.clusters.values():
            if cluster.name.project == project:
                for pool in cluster.pools.values():
                    yield from ((cluster, pool, zone) for zone in pool.zones)

    def _find(
        self, method: str, project: str, name: str, zone: str, region: str
    ) -> tuple[ClusterRecord, PoolRecord, str]:
        world = self._world
        for cluster, pool, at in self._groups(project):
            if (at == zone or region_of(at) == region) and name == f"{group_name(cluster, pool, at)}-grp":
                called, when = f"compute.instanceGroupManagers.{method}", world.clock.wall(world.now)
                world.tell(CallMade(called, cluster.name.cluster, pool.name, "rest", Code.OK.name, when))
                return cluster, pool, at
        raise ApiError(Code.NOT_FOUND, f"The resource '{_path(project, zone, region, name)}' was not found")

    def _describe(self, cluster: ClusterRecord, pool: PoolRecord, at: str, region: str) -> Json:
        url, name = group_urls(cluster, pool)[pool.zones.index(at)], group_name(cluster, pool, at)
        states = [state for _, state in self._states(pool, at)]
        body = {
            "kind": "compute#instanceGroupManager",
            "name": url.rsplit("/", 1)[-1],
            "baseInstanceName": name,
            "instanceTemplate": f"{API}/projects/{cluster.name.project}/global/instanceTemplates/{name}",
            "zone": url.partition("/instanceGroupManagers/")[0],
            "targetSize": len(states),
            "currentActions": dict.fromkeys(_ACTIONS, 0)
            | Counter(each["currentAction"].lower() for each in states),
            "status": self._describe_status(pool, at, states),
            "instanceGroup": url.replace("/instanceGroupManagers/", "/instanceGroups/"),
            "selfLink": url,
            "listManagedInstancesResults": "PAGINATED",
            "targetSizePolicy": {"mode": "BULK" if pool.shape.atomic else "INDIVIDUAL"},
        }
        if region:
            body["region"] = f"{API}/projects/{cluster.name.project}/regions/{region}"
            del body["zone"]
        return body

    def _describe_status(self, pool: PoolRecord, at: str, states: list[Json]) -> Json:
        moving = any(each["currentAction"] != "NONE" for each in states)
        status: Json = {"isStable": not moving, "versionTarget": {"isReached": True}}
        if pool.shape.machine.is_tpu:  # "Currently only shown for TPU MIGs"
            counts = Counter(self._count_as(pool, each) for each in states)
            status["currentInstanceStatuses"] = dict.fromkeys(_STATES, 0) | counts
        if pool.shape.atomic:
            status["bulkInstanceOperation"] = {"inProgress": moving} | self._describe_check(pool, at)
        return status

    def _count_as(self, pool: PoolRecord, state: Json) -> str:
        if "instanceStatus" in state:
            return str(state["instanceStatus"]).lower()
        return "pending" if pool.wait is not None and pool.wait.error is None else "nonExistent"

    def _describe_check(self, pool: PoolRecord, at: str) -> Json:
        rounds = pool.wait.rounds_until(self._world.now) if pool.wait is not None else []
        if pool.wait is None or pool.wait.error is None or not rounds or at not in pool.waiting.values():
            return {}
        timestamp = rfc3339(self._world.clock.wall(rounds[-1]))
        return {"lastProgressCheck": {"timestamp": timestamp, "error": {"errors": [_error(pool.wait.error)]}}}

    def _states(self, pool: PoolRecord, at: str) -> Iterator[tuple[str, Json]]:
        """Return each instance of a group with its state and action."""
        now = self._world.now
        error = pool.wait.error_at(now) if pool.wait is not None else None
        attempt: Json = {} if error is None else {"lastAttempt": {"errors": {"errors": [_error(error)]}}}
        for name in _names(pool, at):
            if name in pool.nodes:
                yield name, dict(_MADE)
            elif name in pool.waiting:
                yield name, {"currentAction": "CREATING", **attempt}
            else:
                state = pool.coming[name].status_at(now)
                action = "NONE" if state == "RUNNING" else "CREATING"
                yield name, {"currentAction": action, "instanceStatus": state}

    def _error_item(self, project: str, past: PastError) -> Json:
        return {
            "error": _error(past.error),
            "timestamp": rfc3339(self._world.clock.wall(past.at)),
            "instanceActionDetails": {
                "action": "CREATING",
                "instance": _instance_url(project, past.zone, past.instance),
            },
        }


def _names(pool: PoolRecord, zone: str) -> list[str]:
    """Return the instances of a group: the nodes, those that come, and then those that wait."""
    return [name for name in (*pool.nodes, *pool.coming, *pool.waiting) if pool.zone_of(name) == zone]


def _error(error: InstanceError) -> Json:
    return {"code": error.code, "message": error.message}


def _instance_url(project: str, zone: str, name: str) -> str:
    return f"{API}/projects/{project}/zones/{zone}/instances/{name}"


def _path(project: str, zone: str, region: str, name: str) -> str:
    place = f"zones/{zone}" if zone else f"regions/{region}"
    return f"projects/{project}/{place}/instanceGroupManagers/{name}"
