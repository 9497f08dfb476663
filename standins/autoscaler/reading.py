"""Reads the answers of GKE and Compute Engine into the autoscaler's picture."""

import re
from typing import Any

from standins.autoscaler.picture import Group, Instance, InstanceError
from standins.kit.fitting import Node, Taint, read_quantity

Json = dict[str, Any]
_VARIABLES = re.compile(r"^AUTOSCALER_ENV_VARS: (.*)$", re.MULTILINE)


def read_group(pool: Json, group: Json, instances: list[Json], template: Node) -> Group:
    """Return the group of an autoscaled pool, from the answers about it."""
    scaling, config = pool.get("autoscaling") or {}, pool.get("config") or {}
    return Group(
        id=group["instanceGroup"],
        pool=pool["name"],
        zone=group["instanceGroup"].split("/zones/", 1)[1].split("/", 1)[0],
        smallest=int(scaling.get("minNodeCount") or scaling.get("totalMinNodeCount") or 0),
        largest=int(scaling.get("maxNodeCount") or scaling.get("totalMaxNodeCount") or 0),
        target=int(group.get("targetSize") or 0),
        all_or_none=(group.get("targetSizePolicy") or {}).get("mode") == "BULK",
        queued=bool(config.get("flexStart")),
        template=template,
        instances=tuple(_read_instance(each) for each in instances),
    )


def _read_instance(raw: Json) -> Instance:
    errors = ((raw.get("lastAttempt") or {}).get("errors") or {}).get("errors") or []
    error = InstanceError(errors[0].get("code", ""), errors[0].get("message", "")) if errors else None
    action = str(raw.get("currentAction", ""))
    creating, deleting = action.startswith("CREATING"), action in ("DELETING", "ABANDONING")
    return Instance(raw["instance"].rpartition("/")[2], creating, deleting, error if creating else None)


def read_template(template: Json, machine: Json) -> Node:
    """Return the node that a group would add, from its instance template and its machine type."""
    items = template["properties"]["metadata"]["items"]
    text = next((each["value"] for each in items if each["key"] == "kube-env"), "")
    found = _VARIABLES.search(text)
    variables = dict(_split(each) for each in found[1].split(";")) if found else {}
    taints = [_split(each) for each in variables.get("node_taints", "").split(",") if each]
    extended = dict(_split(each) for each in variables.get("extended_resources", "").split(",") if each)
    size = {"cpu": str(machine["guestCpus"]), "memory": f"{machine['memoryMb']}Mi"}
    return Node(
        name=template["name"],
        labels=dict(_split(each) for each in variables.get("node_labels", "").split(",") if each),
        taints=tuple(Taint(key, *rest.rpartition(":")[::2]) for key, rest in taints),
        allocatable={name: read_quantity(amount) for name, amount in (size | extended).items()},
    )


def _split(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key, value
