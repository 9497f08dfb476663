"""What an autoscaler reads to know the nodes that an empty group would get.

Machine types, and instance templates, each named as its group, with the variables that GKE puts
there for it (`node_labels`, `node_taints`, `extended_resources`):
https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/gce/templates.go.
"""

from typing import Any

from standins.google.errors import ApiError, Code
from standins.google.gke.model.fleet import group_name
from standins.google.gke.model.machines import find_machine
from standins.google.gke.model.node_objects import node_object
from standins.google.gke.model.state import ClusterRecord, PoolRecord, World

Json = dict[str, Any]
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
