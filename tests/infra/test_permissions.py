"""The calls of the functions need exactly what bootstrap.sh grants and docs/permissions.md says.

Each function's port of GKE has its own verb's methods, so its class says what it calls.
"""

import inspect
import re

import pytest

from shared.edges import gke
from tests.google_calls import google_calls
from tests.infra.terraform_text import ROOT, TERRAFORM, Block, read_configuration

PAGE = ROOT / "docs/permissions.md"
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
OF_THE_EXPORTER = ("POST", "v1/{}:publish")
KUBERNETES = ("Kubernetes", f"{GKE}.connect")
"""The DNS endpoint: https://cloud.google.com/kubernetes-engine/docs/concepts/network-isolation."""


def list_calls(function: str) -> set[tuple[str, str]]:
    """Return what a function calls, in GKE's words, each with its permission."""
    own = {"provision": gke.GkeAdds, "collect": gke.GkeTakes}[function]
    sources = map(inspect.getsource, (gke.GkePools, own, gke.InstanceGroups))
    return {CALLS[call] for source in sources for call in google_calls(source)} | {KUBERNETES}


def test_every_google_call_in_the_deployed_code_is_known_here() -> None:
    calls = {
        call
        for room in ("shared", "exporter", "functions")
        for path in (ROOT / room).rglob("*.py")
        for call in google_calls(path.read_text())
    }

    assert calls == {*CALLS, OF_THE_EXPORTER}


@pytest.mark.parametrize("function", ["provision", "collect"])
def test_the_roles_grant_what_a_function_calls_and_nothing_else(function: str) -> None:
    text = (ROOT / "infra/bootstrap.sh").read_text()
    roles = re.findall(r'make_role "\$home" (?:pools|reads) "[^"]+" \\\n +(\S+)', text)
    granted = {permission for each in roles for permission in each.split(",")}

    assert len(roles) == 2
    assert {permission for _, permission in list_calls(function)} == granted


@pytest.mark.parametrize("function", ["provision", "collect"])
def test_the_page_names_every_permission_with_its_calls(function: str) -> None:
    rows = [row for row in table("permission") if row[0] == function]

    assert {(call, permission) for _, permission, calls, _ in rows for call in calls.split(", ")} == list_calls(
        function
    )


def test_the_page_names_every_grant_of_the_modules() -> None:
    fields = {address: role for _, role, _, _, address in table("role") if "_iam_" in address}
    grants = {each.address: each.body["role"] for each in list_grants()}

    assert fields.keys() == grants.keys()
    assert {each for each in grants if grants[each] != fields[each]} <= {
        "google_storage_bucket_iam_member.workload"
    }


def test_the_page_names_every_grant_of_the_bootstrap() -> None:
    text, page = (ROOT / "infra/bootstrap.sh").read_text(), PAGE.read_text()
    role = r"([a-zA-Z]+\.[a-zA-Z]+)"
    named = set(re.findall(f"roles/{role}", text))
    for block in re.findall(r"for role in ([^;]+?);", text, re.DOTALL):
        named |= set(re.findall(rf"\b{role}\b", block))
    granted = {str(each.body["role"]).removeprefix("roles/") for each in list_grants()}
    of_google = {"container.serviceAgent", "billing.costsManager", "storage.objectUser"}

    assert len(named) > 20
    assert sorted(each for each in named if f"`roles/{each}`" not in page) == []
    assert sorted(set(re.findall(f"`roles/{role}`", page)) - named - granted - of_google) == []


def test_every_grant_names_one_holder() -> None:
    """Grants go only to our accounts and Google's agents, not to groups, domains or all users."""
    bodies = [each.body for each in list_grants()]
    holders = [each for body in bodies for each in (body.get("member"), *body.get("members", [])) if each]

    assert len(holders) > 4
    assert [each for each in holders if not re.search(r"local\.|writer_identity", each)] == []


def list_grants() -> list[Block]:
    """Return the grants of both modules."""
    modules = [read_configuration(TERRAFORM / "modules" / name) for name in ("environment", "provisioner")]
    return [each for module in modules for each in module.of("resource") if "_iam_" in each.type]


def table(second_column: str) -> list[list[str]]:
    """Return the rows of the page's table with that second column, back-quotes taken off."""
    for block in re.split(r"\n\n", PAGE.read_text()):
        rows = [
            [cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines() if line[0] == "|"
        ]
        if rows and rows[0][1] == second_column:
            return [[cell.replace("`", "") for cell in row] for row in rows[2:]]
    raise AssertionError(f"docs/permissions.md has no table with the column {second_column!r}")
