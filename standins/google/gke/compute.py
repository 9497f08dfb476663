"""Compute Engine's side of node pools: instance groups, their templates, workload policies.

What is answered here is in the form of https://cloud.google.com/compute/docs/reference/rest/v1.
"""

import re
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from standins.google.errors import ApiError, Code
from standins.google.gke.errors import invalid, invalid_field
from standins.google.gke.faults.scenario import WorkloadPolicy
from standins.google.gke.model.clock import rfc3339
from standins.google.gke.model.machines import dimensions_of, find_machine
from standins.google.gke.model.node_objects import CallMade, node_object
from standins.google.gke.model.proto_messages import PoolStatus
from standins.google.gke.model.state import ClusterRecord, InstanceError, PastError, PoolRecord, World
from standins.google.gke.model.supply import Growth, group_name, group_urls
from standins.google.gke.resource_names import region_of

Json = dict[str, Any]
API = "https://www.googleapis.com/compute/v1"
_NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class _Held:
    body: Json
    policy: WorkloadPolicy


def describe_operation(world: World, project: str, name: str = "", *, zone: str = "", region: str = "") -> Json:
    """Return an operation of a zone or a region; operations of Compute Engine end at once here."""
    name = name or f"operation-{uuid.UUID(int=world.chance('compute').getrandbits(128))}"
    key, place = ("zone", f"zones/{zone}") if zone else ("region", f"regions/{region}")
    return {
        "kind": "compute#operation",
        "name": name,
        "status": "DONE",
        "progress": 100,
        key: f"{API}/projects/{project}/{place}",
        "selfLink": f"{API}/projects/{project}/{place}/operations/{name}",
    }


class Compute:
    """Keeps workload policies. Operations end at once."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._held: dict[tuple[str, str, str], _Held] = {}

    def create_policy(self, project: str, region: str, body: Json) -> Json:
        """Keep a workload policy and return the operation.

        Raises ApiError for a taken name or unusable fields.
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
            raise ApiError(Code.ALREADY_EXISTS, f"The resource '{_policy_path(*key)}' already exists")
        policy = WorkloadPolicy(name=name, region=region, topology=topology)
        kept = {
            **body,
            "selfLink": f"{API}/{_policy_path(*key)}",
            "region": f"{API}/projects/{project}/regions/{region}",
        }
        self._held[key] = _Held(kept | {"status": "READY", "kind": "compute#resourcePolicy"}, policy)
        self._world.scenario.policies.insert(0, policy)
        return describe_operation(self._world, project, region=region)

    def policy(self, project: str, region: str, name: str) -> Json:
        """Return a policy; raises ApiError (NOT_FOUND)."""
        key = (project, region, name)
        if key not in self._held:
            raise ApiError(Code.NOT_FOUND, f"The resource '{_policy_path(*key)}' was not found")
        return self._held[key].body

    def policies(self, project: str, region: str) -> list[Json]:
        """Return the policies of a region."""
        return [held.body for key, held in self._held.items() if key[:2] == (project, region)]

    def delete_policy(self, project: str, region: str, name: str) -> Json:
        """Forget a policy and return the operation; raises ApiError while a pool still uses it."""
        self.policy(project, region, name)
        users = [
            pool.name
            for cluster in self._world.clusters.values()
            for pool in cluster.pools.values()
            if (cluster.name.project, region_of(cluster.name.location)) == (project, region)
            and pool.message.placement_policy.policy_name.rsplit("/", 1)[-1] == name
        ]
        if users:
            path = _policy_path(project, region, name)
            raise invalid(f"The resource_policy resource '{path}' is already being used by '{users[0]}'")
        self._world.scenario.policies.remove(self._held.pop((project, region, name)).policy)
        return describe_operation(self._world, project, region=region)


def _policy_path(project: str, region: str, name: str) -> str:
    return f"projects/{project}/regions/{region}/resourcePolicies/{name}"


_MEGABYTES = 1024
_OWN = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})


class Templates:
    """Answers for instance templates and machine types."""

    def __init__(self, world: World) -> None:
        self._world = world

    def template(self, project: str, name: str) -> Json:
        """Return the instance template of a group; raises ApiError (NOT_FOUND)."""
        for cluster in self._world.clusters.values():
            for pool in cluster.pools.values() if cluster.name.project == project else ():
                for zone in pool.zones:
                    if name == group_name(cluster, pool, zone):
                        return _describe(cluster, pool, zone)
        path = f"projects/{project}/global/instanceTemplates/{name}"
        raise ApiError(Code.NOT_FOUND, f"The resource '{path}' was not found")

    def machine_type(self, project: str, zone: str, name: str) -> Json:
        """Return the size of a machine type; raises ApiError (NOT_FOUND)."""
        machine = find_machine(name)
        if machine is None:
            path = f"projects/{project}/zones/{zone}/machineTypes/{name}"
            raise ApiError(Code.NOT_FOUND, f"The resource '{path}' was not found")
        memory = machine.memory_gb * _MEGABYTES
        return {"kind": "compute#machineType", "name": name, "guestCpus": machine.cpus, "memoryMb": memory}


def _describe(cluster: ClusterRecord, pool: PoolRecord, zone: str) -> Json:
    name, shape = group_name(cluster, pool, zone), pool.shape
    node = node_object(cluster.name, pool.message, shape.machine, shape.topology, (name, zone)).manifest
    labels = {key: value for key, value in node["metadata"]["labels"].items() if key != "kubernetes.io/hostname"}
    taints = [f"{each['key']}={each['value']}:{each['effect']}" for each in node["spec"]["taints"]]
    extended = {key: value for key, value in node["status"]["capacity"].items() if key not in _OWN}
    variables = {
        "os_distribution": "cos",
        "os": "linux",
        "arch": labels["kubernetes.io/arch"],
        "node_labels": ",".join(f"{key}={value}" for key, value in labels.items()),
        "node_taints": ",".join(taints),
        "extended_resources": ",".join(f"{key}={value}" for key, value in extended.items()),
    }
    text = ";".join(f"{key}={value}" for key, value in variables.items() if value)
    return {
        "kind": "compute#instanceTemplate",
        "name": name,
        "properties": {
            "machineType": shape.machine.name,
            "metadata": {"items": [{"key": "kube-env", "value": f"AUTOSCALER_ENV_VARS: {text}\n"}]},
        },
    }


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
