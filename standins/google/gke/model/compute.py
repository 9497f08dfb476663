"""What tools need of Compute Engine beside instance groups: workload policies, and operations.

Terraform makes the policies by which tpu7x slices are placed:
https://cloud.google.com/compute/docs/reference/rest/v1/resourcePolicies. The groups of the pools
are in `instance_groups`.
"""

import re
import uuid
from dataclasses import dataclass
from typing import Any

from standins.google.errors import ApiError, Code
from standins.google.gke.errors import invalid, invalid_field
from standins.google.gke.faults.scenario import WorkloadPolicy
from standins.google.gke.model.machines import dimensions_of
from standins.google.gke.model.state import World
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
            raise ApiError(Code.ALREADY_EXISTS, f"The resource '{_path(*key)}' already exists")
        policy = WorkloadPolicy(name=name, region=region, topology=topology)
        kept = {**body, "selfLink": f"{API}/{_path(*key)}", "region": f"{API}/projects/{project}/regions/{region}"}
        self._held[key] = _Held(kept | {"status": "READY", "kind": "compute#resourcePolicy"}, policy)
        self._world.scenario.policies.insert(0, policy)
        return describe_operation(self._world, project, region=region)

    def policy(self, project: str, region: str, name: str) -> Json:
        """Return a policy; raises ApiError (NOT_FOUND)."""
        key = (project, region, name)
        if key not in self._held:
            raise ApiError(Code.NOT_FOUND, f"The resource '{_path(*key)}' was not found")
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
            path = _path(project, region, name)
            raise invalid(f"The resource_policy resource '{path}' is already being used by '{users[0]}'")
        self._world.scenario.policies.remove(self._held.pop((project, region, name)).policy)
        return describe_operation(self._world, project, region=region)


def _path(project: str, region: str, name: str) -> str:
    return f"projects/{project}/regions/{region}/resourcePolicies/{name}"
