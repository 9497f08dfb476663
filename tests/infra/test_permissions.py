"""The calls of the functions need exactly what bootstrap.sh grants and docs/permissions.md says.

Each function's port of GKE has its own verb's methods, so its class says what it calls.
"""

import inspect
import re

import pytest

from shared.edges import gke
from tests.google_calls import google_calls, list_calls
from tests.infra.terraform_text import ROOT, TERRAFORM, read_configuration

PAGE = (ROOT / "docs/permissions.md").read_text()
BOOTSTRAP = (ROOT / "infra/bootstrap.sh").read_text()
MODULES = [read_configuration(TERRAFORM / "modules" / name) for name in ("environment", "provisioner")]
GRANTS = [each for module in MODULES for each in module.of("resource") if "_iam_" in each.type]
GKE, COMPUTE = "container.clusters", "compute.instanceGroupManagers"
CALLS = {
    # GKE's audit log says what a change is refused without (https://cloud.google.com/kubernetes-engine/docs/how-to/iam).
    ("POST", "v1/{}/nodePools"): ("CreateNodePool", f"{GKE}.update"),
    ("a client", "delete_node_pool"): ("DeleteNodePool", f"{GKE}.update"),
    ("a client", "set_node_pool_autoscaling"): ("SetNodePoolAutoscaling", f"{GKE}.update"),
    ("a client", "get_cluster"): ("GetCluster", f"{GKE}.get"),
    ("a client", "get_node_pool"): ("GetNodePool", f"{GKE}.get"),
    ("a client", "list_node_pools"): ("ListNodePools", f"{GKE}.get"),
    ("a client", "list_operations"): ("ListOperations", "container.operations.list"),
    # https://cloud.google.com/compute/docs/reference/rest/v1/instanceGroupManagers
    ("GET", "compute/v1/{}"): (f"{COMPUTE}.get", f"{COMPUTE}.get"),
    ("GET", "compute/v1/{}/listErrors"): (f"{COMPUTE}.listErrors", f"{COMPUTE}.get"),
    ("POST", "compute/v1/{}/listManagedInstances{}"): (f"{COMPUTE}.listManagedInstances", f"{COMPUTE}.get"),
}
"""What GKE calls each call of the functions, and what it is refused without. A new call needs a
permission, a row here and one of the page."""
OF_THE_EXPORTER = ("a client", "publish")
KUBERNETES = ("Kubernetes", f"{GKE}.connect")
"""The DNS endpoint: https://cloud.google.com/kubernetes-engine/docs/concepts/network-isolation."""


def list_needed(function: str) -> set[tuple[str, str]]:
    """Return what a function calls, in GKE's words, each with its permission."""
    own = {"provision": gke.GkeAdds, "collect": gke.GkeTakes}[function]
    sources = map(inspect.getsource, (gke.GkePools, own, gke.InstanceGroups))
    return {CALLS[call] for source in sources for call in google_calls(source)} | {KUBERNETES}


def test_every_google_call_in_the_deployed_code_is_known_here() -> None:
    assert list_calls("shared", "exporter", "functions") == {*CALLS, OF_THE_EXPORTER}


@pytest.mark.parametrize("function", ["provision", "collect"])
def test_the_roles_grant_what_a_function_calls_and_the_page_names_it(function: str) -> None:
    granted = re.findall(r'make_role "\$home" (?:pools|reads) "[^"]+" \\\n +(\S+)', BOOTSTRAP)
    page = {
        (call, permission)
        for holder, permission, calls, _ in read_table("permission")
        for call in calls.split(", ")
        if holder == function
    }

    assert len(granted) == 2
    assert {permission for _, permission in list_needed(function)} == set(",".join(granted).split(","))
    assert page == list_needed(function)


def test_the_page_names_every_grant_of_the_modules_and_each_has_one_holder() -> None:
    """Grants go only to our accounts and Google's agents, not to groups, domains or all users."""
    page = {address: role for _, role, _, _, address in read_table("role") if "_iam_" in address}
    bodies = {each.address: each.body for each in GRANTS}
    holders = [each for body in bodies.values() for each in (body.get("member"), *body.get("members", [])) if each]

    assert page.keys() == bodies.keys()
    # A workload's account gets two roles on the bucket, one after the other.
    assert {each for each in page if page[each] != bodies[each]["role"]} <= {
        "google_storage_bucket_iam_member.workload"
    }
    assert len(holders) > 4
    assert [each for each in holders if not re.search(r"local\.|writer_identity", each)] == []


def test_the_page_names_every_grant_of_the_bootstrap() -> None:
    role = r"([a-zA-Z]+\.[a-zA-Z]+)"
    named = set(re.findall(f"roles/{role}", BOOTSTRAP))
    for block in re.findall(r"for role in ([^;]+?);", BOOTSTRAP, re.DOTALL):
        named |= set(re.findall(rf"\b{role}\b", block))
    granted = {str(each.body["role"]).removeprefix("roles/") for each in GRANTS}
    of_google = {"container.serviceAgent", "billing.costsManager", "storage.objectUser"}

    assert len(named) > 20
    assert sorted(each for each in named if f"`roles/{each}`" not in PAGE) == []
    assert sorted(set(re.findall(f"`roles/{role}`", PAGE)) - named - granted - of_google) == []


def read_table(second_column: str) -> list[list[str]]:
    """Return the rows of the page's first table with that second column, back-quotes taken off."""
    table, *_ = re.findall(rf"(?:^\|.+\| {second_column} \|.*\n)((?:\|.+\n)+)", PAGE, re.MULTILINE)
    _, *lines = table.replace("`", "").splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
