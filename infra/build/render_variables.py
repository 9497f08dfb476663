#!/usr/bin/env python3
"""Writes Terraform's variables as JSON, from the build's inputs (see check-inputs.sh).

Values never pass through a shell's or HCL's syntax. What has no input of its own comes from the
JSON file that TERRAFORM_VARIABLES names; another value for what has one is refused. `settings` and
`clusters` of both are joined. With --not-set it only says what is not set and would be missed, and
with --clusters it only lists the clusters that exist and are to be served.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":  # as a script, only this folder is on the import path
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from infra.build.render_training import read_quotas

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parents[2]
_TO_VARIABLES = {
    "PROJECT_ID": "project_id",
    "REGION": "region",
    "NAME": "name",
    "ALERT_EMAIL": "alert_email",
    "RUNBOOK_URL": "runbook_url",
    "FUNCTIONS_EGRESS": "functions_egress",
    "FUNCTIONS_SUBNET": "functions_subnet",
    "BUILD_WORKER_POOL": "build_worker_pool",
    "SERVICES_KMS_KEY": "services_kms_key",
}
_TO_ENVIRONMENT_VARIABLES = {
    "ZONE": "zone",
    "CLUSTER_NAME": "cluster_name",
    "NETWORK_NAME": "network_name",
    "SUBNET_NAME": "subnet_name",
    "ARTIFACT_REPOSITORY_BUCKET_NAME": "artifact_repository_bucket_name",
    "NAMESPACE": "tpu_namespace",
    "TPU_TYPE": "tpu_type",
    "TENSORBOARD_REGION": "tensorboard_region",
    "IMAGE_REPOSITORY": "image_repository_name",
    "CONTROL_PLANE_ACCESS": "control_plane_access",
    "KMS_KEY": "kms_key",
}
_JOINED = ("settings", "clusters")
_INPUTS = {to: name for name, to in (_TO_VARIABLES | _TO_ENVIRONMENT_VARIABLES).items()} | {
    "settings.limit_chips": "LIMIT_CHIPS",
    "clusters.main": "CLUSTER_NAME",
    "create_network": "NETWORK_PROJECT",
    "create_nat": "NETWORK_PROJECT",
    "enable_private_nodes": "PRIVATE_NODES",
    "require_private_nodes": "PRIVATE_NODES",
}
"""The input that sets a variable, if it has another name."""
LIMIT_CHIPS = 256
"""What a deployment may buy unless a person sets a limit (docs/decisions/limits.md)."""
_LIMITS = ("limit_chips", "limit_chips_per_namespace")
MAIN = "main"
"""The key of the one cluster that is served without an environment."""


def render_variables(inputs: Mapping[str, str], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of the chosen root; an empty input leaves the default.

    Raises:
        ValueError: `more` names what an input sets, with another value.
    """
    values: dict[str, Any] = {to: inputs[name] for name, to in _TO_VARIABLES.items() if inputs.get(name)}
    values["functions_archive"] = f"{inputs['BUILD_FOLDER']}/functions.zip"
    values["settings"] = {}
    if limit := inputs.get("LIMIT_CHIPS") or default_limit(inputs, more):
        values["settings"]["limit_chips"] = limit
    if inputs.get("PRIVATE_NODES") == "true":
        values["require_private_nodes"] = True
    own = inputs.get("SERVICES_REGION", "")
    if inputs.get("CREATE_ENVIRONMENT", "true") == "true":
        values |= _render_environment(inputs) | ({"services_region": own} if own else {})
    else:
        values |= _render_cluster(inputs) | ({"region": own} if own else {})
    if found := list(_list_contradictions(_flatten(values), _flatten(more))):
        raise ValueError("\n".join(found))
    values |= {name: {**more[name], **values.get(name, {})} for name in _JOINED if name in more}
    values["settings"] = {name: _write(each) for name, each in values["settings"].items()}
    return {**more, **values}


def _flatten(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by their names; each part of a joined variable has a name of its own."""
    parts = {f"{name}.{key}": each for name in _JOINED for key, each in {**values.get(name, {})}.items()}
    return parts | {name: each for name, each in values.items() if name not in _JOINED}


def _list_contradictions(values: Mapping[str, Any], more: Mapping[str, Any]) -> Iterator[str]:
    """Yield a refusal for each value of the file that an input, or its default, would replace."""
    for name in sorted(values.keys() & more.keys()):
        if _write(more[name]) != _write(values[name]):
            given, own = _INPUTS.get(name, name.upper()), json.dumps(values[name])
            yield (
                f"TERRAFORM_VARIABLES: {name}: contradicts the input {given}, which is or means {own} "
                f"(got {json.dumps(more[name])}); valid: set {given} (_{given}), and no {name} in the file"
            )


def _write(value: Any) -> str:
    """Return a value as a text, which each setting is to Terraform."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def default_limit(inputs: Mapping[str, str], more: Mapping[str, Any]) -> str:
    """Return the limit of chips if a person sets none: a usual one, and enough for the queue.

    If a person sets one, nothing.
    """
    if inputs.get("LIMIT_CHIPS") or any(name in more.get("settings", {}) for name in _LIMITS):
        return ""
    with_queue = inputs.get("CREATE_ENVIRONMENT", "true") == "true"
    return str(max(LIMIT_CHIPS, sum(read_quotas(inputs).values()) if with_queue else 0))


def list_missed(values: Mapping[str, Any], limit: str) -> list[str]:
    """Return a line for each thing that is not set and that nobody notices until it is needed.

    Args:
        values: The variables.
        limit: The default limit, if it is in use.
    """
    found = []
    if limit:
        found.append(
            f"a limit on chips, so this deployment buys at most {limit} chips in a cluster; "
            "set LIMIT_CHIPS (_LIMIT_CHIPS=64), or 0 for no limit"
        )
    limits = {str(values["settings"].get(name, 0)) for name in _LIMITS}
    if limits == {"0"}:
        found.append(
            "a limit on chips, so only Google's quota limits how many chips this deployment buys; "
            "set LIMIT_CHIPS (_LIMIT_CHIPS=256)"
        )
    if not values.get("alert_email") and not values.get("notification_channels"):
        found.append(
            "a notification channel, so alerts are shown in the console only; "
            "set ALERT_EMAIL (_ALERT_EMAIL=team@example.com)"
        )
    if not str(values.get("runbook_url", "")).startswith("https://"):
        found.append(
            "the address of the runbook, so alerts have no link to it; set RUNBOOK_URL (_RUNBOOK_URL=https://...)"
        )
    return [f"Not set: {each}" for each in found]


def _render_environment(inputs: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {
        to: inputs[name] for name, to in _TO_ENVIRONMENT_VARIABLES.items() if inputs.get(name)
    }
    if inputs.get("NUM_TPU_POOLS"):
        values["num_tpu_pools"] = int(inputs["NUM_TPU_POOLS"])
    values["create_tensorboard"] = inputs.get("CREATE_TENSORBOARD") == "true"
    if namespaces := _split(inputs, "MORE_NAMESPACES"):
        values["more_namespaces"] = namespaces
    if accounts := _split(inputs, "NODE_SERVICE_ACCOUNTS"):
        values["node_service_accounts"] = accounts
    host = inputs.get("NETWORK_PROJECT") or inputs["PROJECT_ID"]
    if host != inputs["PROJECT_ID"]:  # its owners make the network and what belongs to it
        values |= {"network_project": host, "create_network": False, "create_nat": False}
    if ranges := _split(inputs, "AUTHORIZED_NETWORKS"):
        values["authorized_networks"] = ranges
    if inputs.get("PRIVATE_NODES"):
        values["enable_private_nodes"] = inputs["PRIVATE_NODES"] == "true"
    return values


def _render_cluster(inputs: Mapping[str, str]) -> dict[str, Any]:
    cluster = {
        "name": inputs["CLUSTER_NAME"],
        "location": inputs.get("CLUSTER_LOCATION") or inputs["REGION"],
        "project": inputs.get("CLUSTER_PROJECT") or inputs["PROJECT_ID"],
        "zone": inputs.get("ZONE", ""),
    }
    if inputs.get("CONTROL_PLANE_ACCESS"):
        cluster["endpoint"] = inputs["CONTROL_PLANE_ACCESS"]
    return {"clusters": {MAIN: cluster}, "node_service_accounts": _split(inputs, "NODE_SERVICE_ACCOUNTS")}


def _split(inputs: Mapping[str, str], name: str) -> list[str]:
    return [each for each in re.split(r"[ ,]+", inputs.get(name, "")) if each]


def list_given(values: Mapping[str, Any]) -> list[str]:
    """Return key, project, location, name and endpoint flag of each cluster that exists."""
    return [
        "\t".join(
            (
                key,
                each.get("project") or values["project_id"],
                each["location"],
                each["name"],
                "--internal-ip" if each.get("endpoint") == "private" else "--dns-endpoint",
            )
        )
        for key, each in sorted(values.get("clusters", {}).items())
    ]


def read_more(path: str) -> dict[str, Any]:
    """Return the variables of the file that TERRAFORM_VARIABLES names; none without a name.

    Raises:
        ValueError: The file cannot be read, or is not a JSON object.
    """
    if not path:
        return {}
    about = f"TERRAFORM_VARIABLES: {path}: "
    valid = 'valid: for example {"demand_wait_minutes": 60}'
    try:
        found = json.loads((ROOT / path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{about}cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{about}is not JSON ({error}); {valid}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{about}is not a JSON object of variables; {valid}")  # noqa: TRY004 -- an input
    return found


def main() -> int | str:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--output", type=Path, help="the .tfvars.json file to write")
    wanted.add_argument("--not-set", action="store_true", help="only say what is not set and would be missed")
    wanted.add_argument("--clusters", action="store_true", help="only list the existing clusters to be served")
    arguments = parser.parse_args()
    try:
        more = read_more(os.environ.get("TERRAFORM_VARIABLES", ""))
        values = render_variables(os.environ, more)
    except ValueError as error:  # of TERRAFORM_VARIABLES, TPU_TYPE, NUM_OF_CHIPS or QUOTAS
        return f"error: {error}"
    if arguments.not_set:
        sys.stdout.writelines(f"{each}\n" for each in list_missed(values, default_limit(os.environ, more)))
        return 0
    if arguments.clusters:
        sys.stdout.writelines(f"{each}\n" for each in list_given(values))
        return 0
    arguments.output.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
