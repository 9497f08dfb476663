"""What tools need of Compute Engine beside node pools.

Instance groups to read, workload policies to make.

Terraform reads a pool's size from its instance groups, and makes the policies by which tpu7x slices
are placed: https://cloud.google.com/compute/docs/reference/rest/v1/resourcePolicies. Pools are in
`model`.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from standins.fakegke.errors import Code, GkeError, invalid, invalid_field
from standins.fakegke.faults.scenario import WorkloadPolicy
from standins.fakegke.model.fleet import Fleet, group_name, group_urls
from standins.fakegke.model.machines import dimensions_of
from standins.fakegke.model.node_events import CallMade
from standins.fakegke.resource_names import region_of

if TYPE_CHECKING:
    from standins.fakegke.model.state import ClusterRecord, PoolRecord, World

Json = dict[str, Any]
_API = "https://www.googleapis.com/compute/v1"
_NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class _Held:
    body: Json
    policy: WorkloadPolicy


class Compute:
    """Answers for the instance groups of the pools, and keeps workload policies.

    Operations end at once.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._held: dict[tuple[str, str, str], _Held] = {}

    def instance_groups(self, project: str, zone: str) -> list[Json]:
        """Return the managed instance groups of every pool in a zone.

        The size is that of the nodes asked for.
        """
        found = []
        for cluster in self._world.clusters.values():
            for pool in cluster.pools.values():
                urls = zip(pool.zones, group_urls(cluster, pool), strict=True)
                found += [
                    _group(url, pool, zone) for at, url in urls if at == zone and cluster.name.project == project
                ]
        return found

    def instance_group(self, project: str, zone: str, name: str) -> Json:
        """Return one managed instance group; raises GkeError (NOT_FOUND)."""
        _, pool = self._find_group(project, zone, name, "compute.instanceGroupManagers.get")
        cluster = next(each for each in self._world.clusters.values() if each.pools.get(pool.name) is pool)
        url = next(url for url in group_urls(cluster, pool) if url.endswith(f"/{name}"))
        return _group(url, pool, zone)

    def managed_instances(self, project: str, zone: str, name: str) -> Json:
        """Return the instances of a group: those that are up, and those that it has not made yet.

        It goes on trying to make the latter, until their creation is given up by
        `delete_instances`:
        https://cloud.google.com/compute/docs/reference/rest/v1/instanceGroupManagers/listManagedInstances.
        """
        cluster, pool = self._find_group(project, zone, name, "compute.instanceGroupManagers.listManagedInstances")
        made = [each for each, node in pool.nodes.items() if node.zone == zone]
        root = f"{_API}/projects/{project}/zones/{zone}/instances"
        up = {"instanceStatus": "RUNNING", "currentAction": "NONE"}
        rows = [{"instance": f"{root}/{each}", **up} for each in made]
        missing = _name_missing(cluster, pool, zone)
        return {
            "managedInstances": [
                *rows,
                *({"instance": f"{root}/{each}", "currentAction": "CREATING"} for each in missing),
            ]
        }

    def delete_instances(self, project: str, zone: str, name: str, body: Json) -> Json:
        """Remove exactly the named instances of a group, which keeps so many fewer from now on.

        The pool's status stays as it is: what GKE reports then is not known.

        Raises GkeError for an instance that is not one of the group's; then none is removed.
        """
        cluster, pool = self._find_group(project, zone, name, "compute.instanceGroupManagers.deleteInstances")
        wanted = [str(each).rsplit("/", 1)[-1] for each in body.get("instances") or []]
        if not wanted:
            raise invalid_field("instances", "", "At least one instance is required.")
        missing = set(_name_missing(cluster, pool, zone))
        for each in wanted:
            if each not in missing and (each not in pool.nodes or pool.nodes[each].zone != zone):
                raise invalid_field("instances", each, f"Instance is not a member of {name}.")
        fleet, made = Fleet(self._world), [each for each in wanted if each not in missing]
        fleet.drain(cluster, pool, made)
        fleet.take_down(cluster, pool, made)
        fleet.give_up(pool, len(set(wanted) & missing))
        return self.operation(project, region_of(zone))

    def _find_group(self, project: str, zone: str, name: str, method: str) -> tuple[ClusterRecord, PoolRecord]:
        world = self._world
        for cluster in world.clusters.values():
            for pool in cluster.pools.values():
                here = zone in pool.zones and cluster.name.project == project
                if here and any(
                    url.endswith(f"/zones/{zone}/instanceGroupManagers/{name}")
                    for url in group_urls(cluster, pool)
                ):
                    at = world.clock.wall(world.now)
                    world.tell(CallMade(method, cluster.name.cluster, pool.name, "rest", Code.OK.name, at))
                    return cluster, pool
        path = f"projects/{project}/zones/{zone}/instanceGroupManagers/{name}"
        raise GkeError(Code.NOT_FOUND, f"The resource '{path}' was not found")

    def create_policy(self, project: str, region: str, body: Json) -> Json:
        """Keep a workload policy and return the operation.

        Raises GkeError for a taken name or unusable fields.
        """
        name = str(body.get("name", ""))
        wanted = body.get("workloadPolicy") or {}
        topology = str(wanted.get("acceleratorTopology", ""))
        if _NAME.fullmatch(name) is None:
            raise invalid_field("resource.name", name, f"Must be a match of regex '{_NAME.pattern}'.")
        if wanted.get("type") != "HIGH_THROUGHPUT":
            raise invalid_field(
                "resource.workloadPolicy.type", wanted.get("type"), "Only HIGH_THROUGHPUT is emulated."
            )
        if not dimensions_of(topology):
            raise invalid_field("resource.workloadPolicy.acceleratorTopology", topology, "Must be like 4x4x4.")
        key = (project, region, name)
        if key in self._held:
            raise GkeError(Code.ALREADY_EXISTS, f"The resource '{_path(*key)}' already exists")
        policy = WorkloadPolicy(name=name, region=region, topology=topology)
        kept = {
            **body,
            "selfLink": f"{_API}/{_path(*key)}",
            "region": f"{_API}/projects/{project}/regions/{region}",
        }
        self._held[key] = _Held(kept | {"status": "READY", "kind": "compute#resourcePolicy"}, policy)
        self._world.scenario.policies.insert(0, policy)
        return self.operation(project, region)

    def policy(self, project: str, region: str, name: str) -> Json:
        """Return a policy; raises GkeError (NOT_FOUND)."""
        key = (project, region, name)
        if key not in self._held:
            raise GkeError(Code.NOT_FOUND, f"The resource '{_path(*key)}' was not found")
        return self._held[key].body

    def policies(self, project: str, region: str) -> list[Json]:
        """Return the policies of a region."""
        return [held.body for key, held in self._held.items() if key[:2] == (project, region)]

    def delete_policy(self, project: str, region: str, name: str) -> Json:
        """Forget a policy and return the operation; raises GkeError while a pool still uses it."""
        self.policy(project, region, name)
        users = [
            pool.name
            for cluster in self._world.clusters.values()
            for pool in cluster.pools.values()
            if (cluster.name.project, region_of(cluster.name.location)) == (project, region)
            and pool.message.placement_policy.policy_name.rsplit("/", 1)[-1] == name
        ]
        if users:
            path = _path(project, region, name)
            raise invalid(f"The resource_policy resource '{path}' is already being used by '{users[0]}'")
        self._world.scenario.policies.remove(self._held.pop((project, region, name)).policy)
        return self.operation(project, region)

    def operation(self, project: str, region: str, name: str = "") -> Json:
        """Return an operation of a region that is done."""
        name = name or f"operation-{uuid.UUID(int=self._world.chance('compute').getrandbits(128))}"
        return {
            "kind": "compute#operation",
            "name": name,
            "status": "DONE",
            "progress": 100,
            "region": f"{_API}/projects/{project}/regions/{region}",
            "selfLink": f"{_API}/projects/{project}/regions/{region}/operations/{name}",
        }


def _group(url: str, pool: PoolRecord, zone: str) -> Json:
    return {
        "kind": "compute#instanceGroupManager",
        "name": url.rsplit("/", 1)[-1],
        "zone": url.partition("/instanceGroupManagers/")[0],
        "targetSize": (pool.target + len(pool.zones) - 1 - pool.zones.index(zone)) // len(pool.zones),
        "instanceGroup": url.replace("/instanceGroupManagers/", "/instanceGroups/"),
        "selfLink": url,
    }


def _name_missing(cluster: ClusterRecord, pool: PoolRecord, zone: str) -> list[str]:
    """Return the names of instances that a group waits for, as if all were in the first zone."""
    count = pool.short if zone == pool.zones[0] else 0
    return [f"{group_name(cluster, pool, zone)}-m{index:03}" for index in range(count)]


def _path(project: str, region: str, name: str) -> str:
    return f"projects/{project}/regions/{region}/resourcePolicies/{name}"
