"""The Node object that a new machine of a group registers, read from the group's instance template.

GKE writes there for its autoscaler what the machine type does not tell, in one variable:
https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/gce/templates.go.
Pure.
"""

import re
from typing import Any

Json = dict[str, Any]

_VARIABLES = re.compile(r"^AUTOSCALER_ENV_VARS: (.*)$", re.MULTILINE)
_PODS = "110"


def read_machine_type(template: Json) -> str:
    """Return the name of the machine type that a template asks for."""
    return str(template["properties"]["machineType"])


def render_new_node(name: str, template: Json, machine_type: Json) -> Json:
    """Return the Node object of a new machine, called `name`: labels, taints and resources.

    Raises ValueError when the template has no variables for an autoscaler.
    """
    variables = _read_variables(template)
    resources = {
        "cpu": str(machine_type["guestCpus"]),
        "memory": f"{machine_type['memoryMb']}Mi",
        "pods": _PODS,
        **_pairs(variables.get("extended_resources", "")),
    }
    return {
        "metadata": {"name": name, "labels": _pairs(variables.get("node_labels", ""))},
        "spec": {"taints": [_read_taint(each) for each in _split(variables.get("node_taints", ""))]},
        "status": {"capacity": resources, "allocatable": resources},
    }


def _read_variables(template: Json) -> dict[str, str]:
    for item in template["properties"]["metadata"]["items"]:
        found = _VARIABLES.search(item["value"]) if item["key"] == "kube-env" else None
        if found:
            return dict(each.split("=", 1) for each in found[1].split(";") if each)
    raise ValueError(f"template {template['name']}: no AUTOSCALER_ENV_VARS in kube-env")


def _split(text: str) -> list[str]:
    return [each for each in text.split(",") if each]


def _pairs(text: str) -> dict[str, str]:
    return dict(each.split("=", 1) for each in _split(text))


def _read_taint(text: str) -> dict[str, str]:
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}
