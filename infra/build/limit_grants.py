#!/usr/bin/env python3
"""Decides whether the builds' account may grant any role, or only the roles of a condition.

Terraform grants roles, so the account has ROLE. With LIMIT_GRANTS=true it has this role with a
condition: it may grant and take away only the roles that Terraform grants here
(https://cloud.google.com/iam/docs/setting-limits-on-granting-roles). With LIMIT_GRANTS=false it may
grant any role. Without LIMIT_GRANTS, what the account has stays as it is.

Takes a project, the account, and a folder with `policy.json` and, for LIMIT_GRANTS=true,
`custom-roles.json`, as gcloud prints them. Writes into the folder what to change, in this order:
`changes` has a verb and gcloud's option in each line. Other inputs come from the environment.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":  # as a script, only this folder is on the import path
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from infra.build.render_variables import read_more

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Condition = dict[str, str]

ROLE = "roles/resourcemanager.projectIamAdmin"
CUSTOM = ("node_pools", "reads")
"""The functions' roles in each project of a cluster.

In their ids, the deployment's name stands before this, and the time of the first apply after it.
"""
BUILDS = ("roles/logging.logWriter", "roles/storage.objectViewer")
"""The roles of the account that builds the functions, in the deployment's project."""
OF_VARIABLES = {
    "gke_sa_roles": ("roles/container.defaultNodeServiceAccount", "roles/artifactregistry.reader"),
    "tpu_sa_roles": ("roles/logging.logWriter",),
}
"""The roles of an environment's nodes and workloads, by Terraform variable, with its default."""
TENSORBOARD = "roles/aiplatform.user"
LIST_MAX = 10
"""How many roles one `hasOnly` can have.

https://github.com/GoogleCloudPlatform/cloud-foundation-fabric/tree/master/blueprints/cloud-operations/iam-delegated-role-grants
"""
LISTS_MAX = 13
"""How many lists one condition can join, because it has at most 12 operators.

https://cloud.google.com/iam/quotas
"""
_ROLE_FORM = re.compile(r'"[\w.:/-]+"')


def list_roles(
    project: str, inputs: Mapping[str, str], more: Mapping[str, Any], custom_roles: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Return every role that Terraform can grant in a project, whichever options are on.

    Args:
        project: The deployment's project, or one of a cluster.
        inputs: Those of the build.
        more: The Terraform variables that have no input of their own.
        custom_roles: Those of the project. The time in the functions' ids is found in them.

    Raises:
        ValueError: The functions' roles do not exist yet, so their ids are not known; or a role of
            `gke_sa_roles` or `tpu_sa_roles` is not a role's name.
    """
    home, name = inputs["PROJECT_ID"], inputs["NAME"]
    environment = project == home and inputs["CREATE_ENVIRONMENT"] == "true"
    prefix = f"projects/{project}/roles/{name.replace('-', '_')}"
    # A deployment of this name in another project may serve a cluster here, and its roles say so.
    times = [
        found[1]
        for role in custom_roles
        if (found := re.fullmatch(rf"{prefix}_{CUSTOM[0]}_(\d+)", role["name"]))
        and f" in project {home} " in role.get("description", "")
    ]
    if not times and (environment or project == inputs["CLUSTER_PROJECT"]):
        raise ValueError(
            f"LIMIT_GRANTS: {project} has no custom role of {name} yet, and a condition needs its id "
            "(got: true); valid: true after the first provisioning, which makes the role; "
            "until then no value, or false for an account that is limited already"
        )
    roles = [f"{prefix}_{each}_{time}" for time in times for each in CUSTOM]
    roles += BUILDS if project == home else ()
    if environment:
        for variable, default in OF_VARIABLES.items():
            roles += _read_roles(variable, more.get(variable, default))
        roles.append(TENSORBOARD)
    return list(dict.fromkeys(roles))


def _read_roles(variable: str, texts: Any) -> list[str]:
    """Return the roles as Terraform writes them, with roles/ in front."""
    if not isinstance(texts, list | tuple) or not all(_ROLE_FORM.fullmatch(json.dumps(each)) for each in texts):
        raise ValueError(f'{variable}: is not a list of roles (got: {texts}); valid: ["roles/logging.logWriter"]')
    return [each if "/" in each else f"roles/{each}" for each in texts]


def write_condition(name: str, roles: Sequence[str]) -> Condition:
    """Return the condition that allows to grant and to take away these roles, and no other ones.

    A list of it must allow all roles of one call. Terraform's provider changes several grants in
    one call, and each grant alone if Google refuses that call; so more than one list works too
    (https://github.com/hashicorp/terraform-provider-google/blob/main/google/transport/batcher.go).

    Raises:
        ValueError: There are more roles than a condition can have.
    """
    lists = [roles[at : at + LIST_MAX] for at in range(0, len(roles), LIST_MAX)]
    if len(lists) > LISTS_MAX:
        raise ValueError(
            f"LIMIT_GRANTS: a condition can have {LIST_MAX * LISTS_MAX} roles (got: {len(roles)}); "
            "valid: fewer roles in gke_sa_roles and tpu_sa_roles"
        )
    expressions = [
        f"api.getAttribute('iam.googleapis.com/modifiedGrantsByRole', []).hasOnly([{', '.join(map(repr, each))}])"
        for each in lists
    ]
    return {"title": f"only-roles-of-{name}", "expression": " || ".join(expressions)}


def plan_changes(
    found: Sequence[Condition | None], wanted: Condition | None
) -> list[tuple[str, Condition | None]]:
    """Return what to add and then what to remove, so that the account has the role once, as wanted.

    Args:
        found: The conditions with which the account has the role; None for no condition.
        wanted: The condition that it should have, or None.
    """
    added = [] if wanted in found else [("add", wanted)]
    return [*added, *(("remove", each) for each in found if each != wanted)]


def find_conditions(policy: Mapping[str, Any], account: str) -> list[Condition | None]:
    """Return the condition of each grant of `ROLE` to an account, None for no condition."""
    return [
        binding.get("condition")
        for binding in policy.get("bindings", ())
        if binding["role"] == ROLE and f"serviceAccount:{account}" in binding["members"]
    ]


def decide(
    project: str, found: Sequence[Condition | None], inputs: Mapping[str, str], folder: Path
) -> tuple[list[tuple[str, Condition | None]], str]:
    """Return what to change, and what to tell the person.

    Raises:
        ValueError: See `list_roles`, `write_condition` and `read_more`.
    """
    if inputs["LIMIT_GRANTS"] == "true":
        custom_roles = json.loads((folder / "custom-roles.json").read_text(encoding="utf-8"))
        roles = list_roles(project, inputs, read_more(inputs["TERRAFORM_VARIABLES"]), custom_roles)
        message = "the builds may grant and take away only these roles: " + ", ".join(roles)
        return plan_changes(found, write_condition(inputs["NAME"], roles)), message
    if inputs["LIMIT_GRANTS"] == "false" or not found:
        return plan_changes(found, None), f"{ROLE}, so the builds may grant any role"
    if None not in found:
        return [], (
            "the builds may grant only the roles of a condition, and this stays so. "
            "LIMIT_GRANTS=true writes the condition anew, and LIMIT_GRANTS=false removes it"
        )
    if any(found):
        return [], (
            f"{ROLE} is granted with a condition and also without one, so the builds may grant any role. "
            "LIMIT_GRANTS=true leaves only the condition, and LIMIT_GRANTS=false removes it"
        )
    return [], f"{ROLE}, so the builds may grant any role"


def main() -> int | str:
    """Write the changes and their conditions, and say what the account may grant."""
    project, account, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    policy = json.loads((folder / "policy.json").read_text(encoding="utf-8"))
    try:
        changes, message = decide(project, find_conditions(policy, account), os.environ, folder)
    except ValueError as error:
        return f"error: {error}"
    lines = []
    for number, (verb, condition) in enumerate(changes):
        path = folder / f"condition-{number}.json"
        path.write_text(json.dumps(condition), encoding="utf-8")
        lines.append(f"{verb} {f'--condition-from-file={path}' if condition else '--condition=None'}\n")
    (folder / "changes").write_text("".join(lines), encoding="utf-8")
    sys.stdout.write(f"{project}: {message}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
