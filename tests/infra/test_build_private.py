"""A private deployment's inputs as Terraform's variables, and grants to Google's own accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from infra.build.render_variables import render_variables
from tests.infra import build_cloud
from tests.infra.build_scripts import BESIDE_A_CLUSTER, OLD_COMMAND_LINE, Bench
from tests.infra.terraform_cli import ROOT
from tests.infra.terraform_text import read_configuration

if TYPE_CHECKING:
    from pathlib import Path

KEY = "projects/keys/locations/us-east5/keyRings/r/cryptoKeys/training"
SERVICES_KEY = "projects/keys/locations/us-central1/keyRings/r/cryptoKeys/services"
PLACES = {
    KEY: "KMS_KEY",
    SERVICES_KEY: "SERVICES_KMS_KEY",
    "training": "the cluster's subnet",
    "host-project": "the host project",
    "functions": "the functions' subnet",
    "other-host": "the project of the functions' subnet",
}
EVERYTHING = {
    "PROJECT_ID": "home-project",
    "REGION": "us-east5",
    "SERVICES_REGION": "us-central1",
    "KMS_KEY": KEY,
    "SERVICES_KMS_KEY": SERVICES_KEY,
    "CREATE_TENSORBOARD": "true",
    "NETWORK_PROJECT": "host-project",
    "SUBNET_NAME": "training",
    "FUNCTIONS_SUBNET": "projects/other-host/regions/us-central1/subnetworks/functions",
}


PLACE = {"PROJECT_ID": "a-project", "BUILD_FOLDER": "/b", "NAME": "tpu-provisioner", "MODE": "active"}
PRIVATE = {
    "_CONTROL_PLANE_ACCESS": "private",
    "_PRIVATE_NODES": "true",
    "_FUNCTIONS_EGRESS": "all",
    "_FUNCTIONS_SUBNET": "projects/host/regions/us-east5/subnetworks/functions",
    "_BUILD_WORKER_POOL": "projects/a-project/locations/us-east5/workerPools/private",
    "_KMS_KEY": "projects/keys/locations/us-east5/keyRings/r/cryptoKeys/k",
    "_SERVICES_KMS_KEY": "projects/keys/locations/us-east5/keyRings/r/cryptoKeys/s",
    "_NETWORK_PROJECT": "host-project",
}


def inputs_of(substitutions: dict[str, str]) -> dict[str, str]:
    return {name.removeprefix("_"): value for name, value in substitutions.items()} | PLACE


@pytest.mark.parametrize(
    ("root", "given", "own"),
    [
        (
            "complete",
            OLD_COMMAND_LINE | {"_AUTHORIZED_NETWORKS": "10.0.0.0/8 192.168.0.0/16"},
            {
                "control_plane_access": "private",
                "enable_private_nodes": True,
                "authorized_networks": ["10.0.0.0/8", "192.168.0.0/16"],
                "kms_key": PRIVATE["_KMS_KEY"],
                "network_project": "host-project",
                "create_network": False,
                "create_nat": False,
            },
        ),
        ("provisioner", BESIDE_A_CLUSTER, {}),
    ],
)
def test_what_is_private_becomes_variables_that_the_root_has(
    root: str, given: dict[str, str], own: dict[str, Any]
) -> None:
    before, values = render_variables(inputs_of(given), {}), render_variables(inputs_of(given | PRIVATE), {})
    added = {name: value for name, value in values.items() if name not in before or name in own}

    assert added == own | {
        "require_private_nodes": True,
        "functions_egress": "all",
        "functions_subnet": PRIVATE["_FUNCTIONS_SUBNET"],
        "build_worker_pool": PRIVATE["_BUILD_WORKER_POOL"],
        "services_kms_key": PRIVATE["_SERVICES_KMS_KEY"],
    }
    assert added.keys() <= {
        each.name for each in read_configuration(ROOT / f"infra/terraform/{root}").of("variable")
    }
    if root == "provisioner":
        assert values["clusters"]["main"]["endpoint"] == "private"
        assert "endpoint" not in before["clusters"]["main"]


def grant(folder: Path, inputs: dict[str, str]) -> list[list[str]]:
    """Run the script on a pretended cloud and return its calls."""
    bench = Bench.make(folder)
    done = bench.run("private-grants.sh", inputs)
    assert done.returncode == 0, done.stderr
    calls: list[list[str]] = build_cloud.read(bench.world)["calls"]
    return calls


def read_grants(calls: list[list[str]]) -> list[tuple[str, str, str]]:
    """Return account, role and object of each grant, in the page's words."""
    found = []
    for call in calls:
        if "add-iam-policy-binding" not in call:
            continue
        (role,) = [word.removeprefix("--role=") for word in call if word.startswith("--role=")]
        (member,) = [word.partition(":")[2] for word in call if word.startswith("--member=")]
        account = member.removesuffix(".gserviceaccount.com").removesuffix(".iam")
        account = account.replace("123456789", "NUMBER").replace("tpu-provisioner-deployer", "NAME-deployer")
        place = PLACES[call[call.index("add-iam-policy-binding") + 1]]
        found.append((account.replace("@home-project", "@PROJECT"), role, place))
    return found


def test_the_page_lists_what_the_script_grants(tmp_path: Path) -> None:
    section = (ROOT / "docs/rights.md").read_text().split("## Google's own accounts")[1]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    said = [(row[0].strip(" `"), row[1].strip(" `"), row[2].strip(" `")) for row in rows]
    granted = read_grants(grant(tmp_path, EVERYTHING))

    assert sorted(granted) == sorted(said)


def test_services_that_were_never_used_get_their_accounts_before_the_grant(tmp_path: Path) -> None:
    calls = [" ".join(call) for call in grant(tmp_path, {"PROJECT_ID": "home-project", "SERVICES_KMS_KEY": KEY})]

    for service in ("pubsub", "cloudfunctions", "run", "eventarc", "artifactregistry"):
        assert any(f"services identity create --service={service}.googleapis.com" in call for call in calls)
    assert any("storage service-agent" in call for call in calls)


def test_one_region_needs_one_key(tmp_path: Path) -> None:
    one = {"PROJECT_ID": "home-project", "REGION": "us-east5", "KMS_KEY": KEY}
    granted = {account for account, _, _ in read_grants(grant(tmp_path, one))}

    assert "service-NUMBER@container-engine-robot" in granted
    assert "service-NUMBER@gcp-sa-pubsub" in granted
    assert "service-NUMBER@gcp-sa-aiplatform" not in granted


@pytest.mark.parametrize(
    ("inputs", "complaint"),
    [
        ({}, "KMS_KEY: one of KMS_KEY, SERVICES_KMS_KEY, NETWORK_PROJECT and FUNCTIONS_SUBNET is required"),
        ({"KMS_KEY": "training"}, "KMS_KEY: is not valid (got: training); valid: projects/PROJECT/locations/"),
        ({"NETWORK_PROJECT": "Host"}, "NETWORK_PROJECT: is not valid (got: Host); valid: a project id"),
        ({"NETWORK_PROJECT": "host-project", "REGION": "us-east5"}, "SUBNET_NAME: is required"),
    ],
)
def test_what_is_missing_or_wrong_is_told(tmp_path: Path, inputs: dict[str, str], complaint: str) -> None:
    bench = Bench.make(tmp_path)
    done = bench.run("private-grants.sh", {"PROJECT_ID": "home-project"} | inputs)

    assert done.returncode == 1
    assert complaint in done.stderr
    assert not any("add-iam-policy-binding" in call for call in build_cloud.read(bench.world)["calls"])
