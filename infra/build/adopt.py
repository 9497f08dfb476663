#!/usr/bin/env python3
"""Takes over what a killed build has created, so that the next build does not fail on it.

If a build is killed while Terraform works, what it just created is not in the state. The next apply
fails for each such resource with "already exists". With --errors, --plan and --output, this program
adds an import block for each of them to a file (find_by_name.py finds those that Google names
itself). With --check it reads the plan with these blocks,
and refuses what does not show that it is of this deployment: by the label `app`, or where there
are no labels by a title that begins with NAME, or by a description that we gave. A name alone
proves nothing: others also give names that begin with NAME.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_REGIONAL = "projects/{project}/regions/{region}"
_LOCAL = "projects/{project}/locations/{location}"
IMPORT_IDS = {
    "google_artifact_registry_repository": f"{_LOCAL}/repositories/{{repository_id}}",
    "google_cloud_scheduler_job": "projects/{project}/locations/{region}/jobs/{name}",
    "google_cloudfunctions2_function": f"{_LOCAL}/functions/{{name}}",
    "google_compute_network": "projects/{project}/global/networks/{name}",
    "google_compute_resource_policy": f"{_REGIONAL}/resourcePolicies/{{name}}",
    "google_compute_router": f"{_REGIONAL}/routers/{{name}}",
    "google_compute_router_nat": f"{_REGIONAL}/routers/{{router}}/{{name}}",
    "google_compute_subnetwork": f"{_REGIONAL}/subnetworks/{{name}}",
    "google_container_cluster": f"{_LOCAL}/clusters/{{name}}",
    "google_container_node_pool": "{cluster}/{name}",
    "google_logging_metric": "{project} {name}",
    "google_monitoring_custom_service": "projects/{project}/services/{service_id}",
    "google_monitoring_monitored_project": "v1/locations/global/metricsScopes/{metrics_scope}/projects/{name}",
    "google_monitoring_slo": "projects/{project}/services/{service}/serviceLevelObjectives/{slo_id}",
    "google_project_iam_custom_role": "projects/{project}/roles/{role_id}",
    "google_pubsub_subscription": "projects/{project}/subscriptions/{name}",
    "google_pubsub_topic": "projects/{project}/topics/{name}",
    "google_service_account": "projects/{project}/serviceAccounts/{account_id}@{project}.iam.gserviceaccount.com",
    "google_storage_bucket": "{project}/{name}",
}
"""How the provider names what it imports: https://registry.terraform.io/providers/hashicorp/google/latest/docs."""
DESCRIPTIONS = (
    "TPU Provisioner's environment of the cluster {}",
    "Nodes of cluster {}",
    "Training workloads of cluster {}",
    "Images of the training workloads of cluster {}",
)
"""What Terraform writes on the environment's resources that can have no label."""
CANNOT_CLASH = {
    "google_storage_bucket_object": "an upload replaces the object of the same name",
    "terraform_data": "it is in the state only",
}
"""Types of which a killed build can leave one that hinders no later build; grants are such, too."""
ACQUIRED = {
    "google_logging_project_sink": "an existing one of that name is updated",
    "google_project_iam_custom_role": "a deleted one of that id is restored; an existing one is an error",
    "google_storage_bucket_object": "an existing one of that name is replaced",
    "google_cloud_run_v2_service_iam_binding": "the members of the role are replaced",
}
"""What a create takes over without an error, read in the provider's source (release 7.45). So a
stranger's or another deployment's could be changed, and destroyed later. A sink is looked for
before it is created (find_by_name.py). The others are inside our own resources, or have the time of
the deployment in their IDs. Also a grant that exists is given a second time without an error."""
_MARKED = ("google_compute_network", "google_compute_router", "google_compute_subnetwork")
"""People choose their names, and a plan changes no description of theirs. So one of `DESCRIPTIONS`
alone shows whose they are."""
_PART_OF_OURS = ("google_container_node_pool", "google_compute_router_nat")
"""What is inside another resource, which was looked at itself."""
_LINKS = ("google_monitoring_monitored_project",)
"""What has no name of its own. It is the same link, no matter which deployment made it."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_EXISTS = re.compile(r"\b409\b|already ?exists|existing object already found", re.IGNORECASE)
"""The last words are the provider's own, of an object that is inside another one, such as a NAT."""
_ADDRESS = re.compile(r"^\s*with (\S.*),$", re.MULTILINE)


def find_existing(errors: str) -> list[str]:
    """Return the addresses that Terraform did not create because their names are taken."""
    plain = _COLOUR.sub("", errors)
    plain = re.sub(r"^[│╷╵] ?", "", plain, flags=re.MULTILINE)
    blocks = re.split(r"^(?=Error: )", plain, flags=re.MULTILINE)
    return [found[1] for each in blocks if _EXISTS.search(each) and (found := _ADDRESS.search(each))]


def list_imports(plan: Mapping[str, Any], addresses: Iterable[str]) -> Iterator[str]:
    """Yield the import block of each resource that the plan creates and that can be imported."""
    planned = {each["address"]: each for each in plan.get("resource_changes", ())}
    for address in addresses:
        each = planned.get(address)
        if each is None or each["type"] not in IMPORT_IDS:
            continue
        values = {name: value for name, value in each["change"]["after"].items() if isinstance(value, str)}
        if each["type"] == "google_container_node_pool" and "cluster" in values:
            values["cluster"] = re.sub(r"^projects/|locations/|clusters/", "", values["cluster"])
        try:
            given = IMPORT_IDS[each["type"]].format_map(values)
        except KeyError:
            continue  # known only after another resource exists, so this one cannot exist yet
        yield render_import(address, given)


def render_import(address: str, identifier: str) -> str:
    """Return the block that makes Terraform import one resource."""
    return f"import {{\n  to = {address}\n  id = {json.dumps(identifier)}\n}}\n"


def read_display_name(values: Mapping[str, Any]) -> str:
    """Return what the console calls a resource; empty if it calls it nothing."""
    if values.get("dashboard_json"):
        return str(json.loads(values["dashboard_json"]).get("displayName", ""))
    return values.get("title") or values.get("display_name") or ""


def refuse_strangers(plan: Mapping[str, Any], inputs: Mapping[str, str]) -> str:
    """Return the refusal of a plan that takes over what another has made; empty if it does not."""
    imported = [each for each in plan.get("resource_changes", ()) if each["change"].get("importing")]
    found = [
        f"  {each['address']} ({each['change']['importing'].get('id', '')})\n"
        for each in imported
        if not _is_ours(each["type"], each["change"], inputs)
    ]
    if not found:
        return ""
    return (
        f"these exist already, and nothing shows that {inputs['NAME']} made them:\n{''.join(sorted(found))}"
        "This plan is not applied. Give other names in the inputs, or delete them"
    )


def _is_ours(kind: str, change: Mapping[str, Any], inputs: Mapping[str, str]) -> bool:
    name, values, planned = inputs["NAME"], change["before"], change.get("after") or {}
    if "effective_labels" in values:
        return bool((values["effective_labels"] or {}).get("app") == name)
    given = {each.format(inputs.get("CLUSTER_NAME", "")) for each in DESCRIPTIONS}
    texts, wanted = (
        [each.get(key) or "" for key in ("description", "display_name")] for each in (values, planned)
    )
    title = read_display_name(values)
    # The dashboard has the second title.
    titled = title.startswith(f"{name}: ") or title == f"TPU provisioner: {name}"
    if kind in (*_PART_OF_OURS, *_LINKS) or titled or not given.isdisjoint(texts):
        return True
    called = (values.get("account_id") or values.get("name") or "").startswith((f"{name}-", f"{name}/"))
    return called and any(texts) and texts == wanted and kind not in _MARKED


def main() -> int | str:
    """Write import blocks, or check a plan that has them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--errors", type=Path, help="what `terraform apply` wrote to standard error")
    parser.add_argument("--plan", type=Path, required=True, help="the plan, from `terraform show -json`")
    parser.add_argument("--output", type=Path, help="the .tf file that gets the import blocks")
    parser.add_argument("--check", action="store_true", help="refuse what is not of this deployment")
    arguments = parser.parse_args()
    plan = json.loads(arguments.plan.read_text(encoding="utf-8"))
    if arguments.check:
        refusal = refuse_strangers(plan, os.environ)
        return f"error: {refusal}" if refusal else 0
    existing = find_existing(arguments.errors.read_text(encoding="utf-8"))
    # Terraform refuses a second block for one address, and it would mend no more than the first.
    given = arguments.output.read_text(encoding="utf-8") if arguments.output.exists() else ""
    blocks = list(list_imports(plan, [each for each in existing if f"  to = {each}\n" not in given]))
    arguments.output.write_text(given + "".join(blocks), encoding="utf-8")
    return 0 if blocks else 1


if __name__ == "__main__":
    sys.exit(main())
