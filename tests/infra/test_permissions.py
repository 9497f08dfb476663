"""The calls of the functions need exactly what bootstrap.sh grants and docs/permissions.md says.

The calls are recorded by the fake GKE, whose log names them as GKE's own audit log does, while the
functions' own code goes through every kind of situation.
"""

import re

import pytest

from tests.contract.stand_ins import stand_in
from tests.google_calls import google_calls
from tests.infra.function_runs import run_all
from tests.infra.terraform_cli import ROOT, TERRAFORM
from tests.infra.terraform_text import Configuration, read_configuration

PAGE = ROOT / "docs/permissions.md"
MODULE = TERRAFORM / "modules/provisioner"
PERMISSIONS = {
    # What each call is refused without; for changes, GKE's audit log names the permission
    # (https://cloud.google.com/kubernetes-engine/docs/how-to/iam).
    "CreateNodePool": "container.clusters.update",
    "DeleteNodePool": "container.clusters.update",
    "GetCluster": "container.clusters.get",
    "GetNodePool": "container.clusters.get",
    "ListNodePools": "container.clusters.get",
    "ListOperations": "container.operations.list",
    "SetNodePoolAutoscaling": "container.clusters.update",
    # https://cloud.google.com/compute/docs/reference/rest/v1/instanceGroupManagers
    "compute.instanceGroupManagers.get": "compute.instanceGroupManagers.get",
    "compute.instanceGroupManagers.listManagedInstances": "compute.instanceGroupManagers.get",
    "compute.instanceGroupManagers.listErrors": "compute.instanceGroupManagers.get",
    # https://cloud.google.com/kubernetes-engine/docs/concepts/network-isolation: the DNS endpoint
    "Kubernetes": "container.clusters.connect",
}
GOOGLE_CALLS = {
    ("shared/edges/gke.py", "POST", "v1/{}/nodePools"),
    ("shared/edges/gke.py", "a client", "get_cluster"),
    ("shared/edges/gke.py", "a client", "get_node_pool"),
    ("shared/edges/gke.py", "a client", "list_node_pools"),
    ("shared/edges/gke.py", "a client", "list_operations"),
    ("shared/edges/gke.py", "a client", "delete_node_pool"),
    ("shared/edges/gke.py", "a client", "set_node_pool_autoscaling"),
    ("shared/edges/gke.py", "GET", "compute/v1/{}"),
    ("shared/edges/gke.py", "GET", "compute/v1/{}/listErrors"),
    ("shared/edges/gke.py", "POST", "compute/v1/{}/listManagedInstances{}"),
    ("shared/edges/pubsub.py", "a client", "publish"),
}
"""Every call of a Google API in the deployed code. A new one needs a permission, a row here and one
there."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """What each function called, in GKE's words."""
    command = ("standins.google", "serve", "--project", "p", "--location", "us-east5", "--cluster", "c")
    with stand_in(tmp_path_factory.mktemp("gke"), *command, "--manual-clock", "--machines-everywhere") as ports:
        return run_all(ports["rest"])


@pytest.fixture(scope="module")
def module() -> Configuration:
    return read_configuration(MODULE)


def test_every_google_call_in_the_deployed_code_is_known_here() -> None:
    found = {
        (str(path.relative_to(ROOT)), *call)
        for room in ("shared", "exporter", "functions")
        for path in (ROOT / room).rglob("*.py")
        for call in google_calls(path.read_text())
    }

    assert found == GOOGLE_CALLS


def test_the_roles_grant_what_every_function_calls_and_nothing_else(recorded: dict[str, set[str]]) -> None:
    text = (ROOT / "infra/bootstrap.sh").read_text()
    roles = re.findall(r'make_role "\$home" (?:pools|reads) "[^"]+" \\\n +(\S+)', text)
    granted = {permission for each in roles for permission in each.split(",")}

    assert len(roles) == 2
    needed = {name: {PERMISSIONS[call] for call in calls} for name, calls in recorded.items()}
    assert needed == dict.fromkeys(("provision", "collect"), granted)


def test_the_page_names_every_permission_with_its_calls(recorded: dict[str, set[str]]) -> None:
    fields = {(who, permission): set(calls.split(", ")) for who, permission, calls, _ in table("permission")}
    wanted = {
        (function, permission): {call for call in calls if PERMISSIONS[call] == permission}
        for function, calls in recorded.items()
        for permission in {PERMISSIONS[call] for call in calls}
    }

    assert fields == wanted


def test_the_page_names_every_grant_of_the_modules() -> None:
    fields = {address: role for _, role, _, _, address in table("role") if "_iam_" in address}
    grants = {
        each.address: each.body["role"]
        for name in ("environment", "provisioner")
        for each in read_configuration(TERRAFORM / "modules" / name).of("resource")
        if "_iam_" in each.type
    }

    assert fields.keys() == grants.keys()
    assert {each for each in grants if grants[each] != fields[each]} <= {
        "google_storage_bucket_iam_member.workload"
    }


def test_the_page_names_every_grant_of_the_bootstrap() -> None:
    text = (ROOT / "infra/bootstrap.sh").read_text()
    page = PAGE.read_text()
    named = set(re.findall(r"roles/([a-zA-Z]+\.[a-zA-Z]+)", text))
    for block in re.findall(r"for role in ([^;]+?);", text, re.DOTALL):
        named |= set(re.findall(r"\b([a-z]+\.[a-zA-Z]+)\b", block))

    assert len(named) > 20
    assert sorted(each for each in named if f"`roles/{each}`" not in page) == []
    said = set(re.findall(r"`roles/([a-zA-Z]+\.[a-zA-Z]+)`", page))
    granted = {
        str(each.body["role"]).removeprefix("roles/")
        for name in ("environment", "provisioner")
        for each in read_configuration(TERRAFORM / "modules" / name).of("resource")
        if "_iam_" in each.type
    }
    assert (
        sorted(said - named - granted - {"container.serviceAgent", "billing.costsManager", "storage.objectUser"})
        == []
    )


def test_every_grant_of_the_module_names_one_holder(module: Configuration) -> None:
    """Grants go only to our accounts and Google's agents, not to groups, domains or all users."""
    holders = [
        member
        for each in module.of("resource")
        if "_iam_" in each.type and "role" in each.body
        for member in [each.body.get("member"), *each.body.get("members", [])]
        if member is not None
    ]

    assert len(holders) > 4
    assert [each for each in holders if not re.search(r"local\.|writer_identity", each)] == []


def table(second_column: str) -> list[list[str]]:
    """Return the rows of the page's table with that second column, back-quotes taken off."""
    for block in re.split(r"\n\n", PAGE.read_text()):
        rows = [
            [cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines() if line[0] == "|"
        ]
        if rows and rows[0][1] == second_column:
            return [[cell.replace("`", "") for cell in row] for row in rows[2:]]
    raise AssertionError(f"docs/permissions.md has no table with the column {second_column!r}")
