"""The instance groups of a cluster's autoscaled pools, through the REST calls of GKE and Compute.

https://cloud.google.com/compute/docs/reference/rest/v1/instanceGroupManagers and
https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.nodePools.
"""

from typing import Any

import httpx

from standins.autoscaler_real.node_groups import Group, Instance, Refused, State
from standins.autoscaler_real.node_templates import read_machine_type, render_new_node

Json = dict[str, Any]

_API = "https://www.googleapis.com/compute/v1/"
_PATH = "/compute/v1/"
_MANAGERS, _GROUPS = "/instanceGroupManagers/", "/instanceGroups/"
_NOT_YET_OR_NO_MORE = ("PROVISIONING", "STOPPING")
_SECONDS = 4.0
"""Shorter than the autoscaler waits for an answer (five seconds)."""
_BECOMING = ("CREATING", "CREATING_WITHOUT_RETRIES", "RECREATING")
_GOING = ("DELETING", "ABANDONING")


class ComputeGroups:
    """The groups of one cluster. Their names are addresses, as GKE's autoscaler writes them.

    Args:
        rest: The address of the server, without a slash at its end.
        cluster: ``projects/…/locations/…/clusters/…``.
        transport: How requests travel; None: over the network.
    """

    def __init__(self, rest: str, cluster: str, *, transport: httpx.BaseTransport | None = None) -> None:
        self._cluster = cluster
        self._templates: dict[str, Json] = {}
        self._http = httpx.Client(base_url=rest, timeout=_SECONDS, trust_env=False, transport=transport)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def list_groups(self) -> list[Group]:
        """Return the groups of the pools that have autoscaling and are not being deleted."""
        pools = self._call("GET", f"/v1/{self._cluster}/nodePools").get("nodePools", [])
        return [
            self._read(pool, url)
            for pool in pools
            if pool.get("autoscaling", {}).get("enabled") and pool.get("status") not in _NOT_YET_OR_NO_MORE
            for url in pool.get("instanceGroupUrls", [])
        ]

    def target_size(self, name: str) -> int:
        """Return how many machines a group is asked to have."""
        return int(self._call("GET", _path(name)).get("targetSize", 0))

    def list_instances(self, name: str) -> list[Instance]:
        """Return the machines of a group with the last error of each one's creation."""
        found, page = list[Json](), ""
        while True:
            answer = self._call("POST", f"{_path(name)}/listManagedInstances", params={"pageToken": page})
            found += answer.get("managedInstances", [])
            if not (page := answer.get("nextPageToken", "")):
                return [_instance(each) for each in found]

    def resize(self, name: str, size: int) -> None:
        """Ask a group to have so many machines from now on."""
        self._call("POST", f"{_path(name)}/resize", params={"size": str(size)})

    def delete_instances(self, name: str, provider_ids: list[str]) -> None:
        """Remove exactly these machines; the group is asked for so many fewer from now on."""
        self._call(
            "POST", f"{_path(name)}/deleteInstances", body={"instances": [_address(each) for each in provider_ids]}
        )

    def _read(self, pool: Json, url: str) -> Group:
        scaling = pool["autoscaling"]
        if url not in self._templates:
            self._templates[url] = self._read_template(url)
        return Group(
            name=url.replace(_MANAGERS, _GROUPS),
            minimum=int(scaling.get("minNodeCount", 0)),
            maximum=int(scaling.get("maxNodeCount", 0)),
            all_or_nothing=bool(pool.get("placementPolicy", {}).get("tpuTopology")),
            template=self._templates[url],
        )

    def _read_template(self, url: str) -> Json:
        group = self._call("GET", _path(url))
        template = self._call("GET", _path(group["instanceTemplate"]))
        project, _, rest = url.removeprefix(f"{_API}projects/").partition("/zones/")
        machine = f"projects/{project}/zones/{rest.partition('/')[0]}/machineTypes/{read_machine_type(template)}"
        try:
            return render_new_node(f"{group['name']}-new", template, self._call("GET", f"{_PATH}{machine}"))
        except (KeyError, ValueError) as error:
            raise Refused(f"{template.get('name')}: {error!r}") from error

    def _call(
        self, verb: str, path: str, *, params: dict[str, str] | None = None, body: Json | None = None
    ) -> Json:
        try:
            answer = self._http.request(verb, path, params=params, json=body)
            answer.raise_for_status()
            return dict(answer.json())
        except (httpx.HTTPError, ValueError) as error:
            raise Refused(f"{verb} {path}: {error}") from error


def _path(name: str) -> str:
    return _PATH + name.removeprefix(_API).replace(_GROUPS, _MANAGERS)


def _address(provider_id: str) -> str:
    project, zone, name = provider_id.removeprefix("gce://").split("/")
    return f"{_API}projects/{project}/zones/{zone}/instances/{name}"


def _instance(row: Json) -> Instance:
    _, _, project, _, zone, _, name = ("/" + row["instance"].removeprefix(_API)).split("/")
    action = row.get("currentAction", "NONE")
    state = State.CREATING if action in _BECOMING else State.DELETING if action in _GOING else State.RUNNING
    errors = row.get("lastAttempt", {}).get("errors", {}).get("errors", [])
    last = errors[0] if errors and state is State.CREATING else {}
    return Instance(
        provider_id=f"gce://{project}/{zone}/{name}",
        state=state,
        code=last.get("code", ""),
        message=last.get("message", ""),
    )
