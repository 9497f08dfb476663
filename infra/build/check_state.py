#!/usr/bin/env python3
"""Refuses a Terraform state that describes something else than the inputs name.

The state's place follows from the deployment's name only. With another cluster in the inputs,
Terraform would replace the first cluster; with another root, it would delete what only the other
root knows; with another name, it would make everything anew. With --kept it compares what the
destroy build may keep, and of which it prints how to delete it later. Reads `terraform state pull`
from standard input, and the inputs (check-inputs.sh) from the environment.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":  # as a script, only this folder is on the import path
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from infra.build.outputs import ENVIRONMENT, find_kind, list_clusters
from infra.build.render_variables import MAIN

if TYPE_CHECKING:
    from collections.abc import Mapping

OURS = ("module.environment", "module.provisioner")
"""The modules that all resources of both roots are in."""
_KEYS = {"complete": ENVIRONMENT, "provisioner": MAIN}
_SERVED = ("data", "module.provisioner", "google_container_cluster")
"""How the state has the clusters that the provisioner serves."""
_TOPIC = "module.provisioner.google_pubsub_topic.workload_events"
"""Every deployment has it, and its name is that of the deployment."""
_KEPT = {
    "module.environment.google_storage_bucket.artifacts": ("ARTIFACT_REPOSITORY_BUCKET_NAME", "name"),
    "module.environment.google_artifact_registry_repository.images": ("IMAGE_REPOSITORY", "repository_id"),
}
"""What the destroy build keeps unless it is asked: the input that names it, and the state's word
for the name."""
_MOVING = "docs/deploy.md#moving-from-the-public-environment"


_OTHER_ROOT = {
    "provisioner": (
        "a provisioner without an environment; set CREATE_ENVIRONMENT=false, or another NAME or TF_STATE_PREFIX"
    ),
    "complete": "an environment; set CREATE_ENVIRONMENT=true, or another NAME",
}


def find_difference(state: Mapping[str, Any], inputs: Mapping[str, str]) -> str:
    """Return why the inputs do not fit the state, and what to change; empty if they fit."""
    where = f"gs://{inputs.get('TF_STATE_BUCKET', '')}/{inputs.get('TF_STATE_PREFIX', '')}"
    resources = [each for each in state.get("resources", ()) if each.get("mode") == "managed"]
    foreign = [_name(each) for each in resources if not each.get("module", "").startswith(OURS)]
    if foreign:
        return (
            f"{where} is the state of another configuration (it has {_count(foreign)}), for example of the public "
            f"TPU training environment; set another TF_STATE_PREFIX. To move over: {_MOVING}"
        )
    topic = _read_values(state, _TOPIC)
    made = topic and f"{topic['name'].removesuffix('-workload-events')} of {topic['project']}"
    named = f"{inputs['NAME']} of {inputs['PROJECT_ID']}"
    if made and made != named:
        return (
            f"{where} is the state of the deployment {made}, and the inputs name {named}. Terraform would destroy "
            "the first and make the second. For a second deployment, set another TF_STATE_PREFIX; for this one, "
            "correct NAME or PROJECT_ID"
        )
    outputs = {"clusters": _read_served(state)}
    outputs |= {name: each["value"] for name, each in state.get("outputs", {}).items()}
    kind = "complete" if any(_is_of_environment(each) for each in resources) else find_kind(outputs)
    wanted = "complete" if inputs.get("CREATE_ENVIRONMENT", "true") == "true" else "provisioner"
    if kind and kind != wanted:
        return f"{where} is the state of {_OTHER_ROOT[kind]}"
    found = find_own_cluster(state) or _find_served(outputs, kind)
    given = _name_given(inputs)
    if found and found != given:
        return (
            f"{where} is the state of {found}, and the inputs name {given}. Terraform would replace the first "
            "by the second. For a second deployment, set another NAME; for this one, correct CLUSTER_NAME, "
            "CLUSTER_LOCATION, REGION or CLUSTER_PROJECT"
        )
    region = _find_region(state)
    if not found and region and region != inputs["REGION"]:
        return (
            f"{where} is the state of an environment that is made in {region}, and REGION is {inputs['REGION']}. "
            f"Set REGION={region}, or for a second deployment another NAME"
        )
    return ""


def _find_region(state: Mapping[str, Any]) -> str:
    """Return the region of an environment that has no cluster yet, by what is made before it."""
    for each in state.get("resources", ()):
        if each["type"] == "google_compute_subnetwork" and _is_of_environment(each) and each.get("instances"):
            return str(each["instances"][0]["attributes"]["region"])
    return ""


def find_kept_difference(state: Mapping[str, Any], inputs: Mapping[str, str]) -> str:
    """Return which inputs name another bucket or repository than the state has; empty if none."""
    found = []
    for address, (name, key) in _KEPT.items():
        given, made = inputs.get(name, ""), _read_values(state, address).get(key, "")
        if made and given != made:
            found.append(f"{name}: is not what this deployment has (got: {given}); valid: {made}")
    return "; ".join(found)


def _read_values(state: Mapping[str, Any], address: str) -> dict[str, Any]:
    """Return what the state has of a resource, of its first instance; empty without one."""
    for each in state.get("resources", ()):
        if each.get("mode") == "managed" and _name(each) == address and each.get("instances"):
            values: dict[str, Any] = each["instances"][0]["attributes"]
            return values
    return {}


def _read_served(state: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the served clusters as the output `clusters` names them, from what Terraform has read.

    A first build that was killed has no outputs, but the state has what the plan read.
    """
    return {
        each["index_key"]: {
            "path": _spell(*(each["attributes"][name] for name in ("project", "location", "name")))
        }
        for read in state.get("resources", ())
        if (read.get("mode"), read.get("module"), read["type"]) == _SERVED
        for each in read["instances"]
    }


def find_own_cluster(state: Mapping[str, Any]) -> str:
    """Return the full name of the cluster that Terraform has created; empty if it has none."""
    values = _read_values(state, "module.environment.google_container_cluster.this")
    return _spell(values["project"], values["location"], values["name"]) if values else ""


def _find_served(outputs: dict[str, Any], kind: str) -> str:
    served = {key: _spell(*row) for key, *row, _flag in list_clusters(outputs)}
    return served.get(_KEYS.get(kind, ""), "")


def _name_given(inputs: Mapping[str, str]) -> str:
    location = inputs.get("CLUSTER_LOCATION") or inputs["REGION"]
    return _spell(inputs.get("CLUSTER_PROJECT") or inputs["PROJECT_ID"], location, inputs["CLUSTER_NAME"])


def _spell(project: str, location: str, name: str) -> str:
    return f"projects/{project}/locations/{location}/clusters/{name}"


def _is_of_environment(resource: Mapping[str, Any]) -> bool:
    return bool(resource.get("module", "").startswith(OURS[0]))


def _name(resource: Mapping[str, Any]) -> str:
    return ".".join(filter(None, (resource.get("module"), resource["type"], resource["name"])))


def _count(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def main() -> int | str:
    """Check the state on standard input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kept", action="store_true", help="compare what the destroy build may keep")
    find = find_kept_difference if parser.parse_args().kept else find_difference
    text = sys.stdin.read().strip()
    difference = find(json.loads(text) if text else {}, os.environ)
    return f"error: {difference}" if difference else 0


if __name__ == "__main__":
    sys.exit(main())
