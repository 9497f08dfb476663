"""A private deployment's inputs as Terraform's variables, and grants to Google's own accounts."""

from typing import Any

import pytest

from infra.build.render_variables import render_variables
from tests.infra.build_scripts import BESIDE_A_CLUSTER, DEPLOYMENT, OLD_COMMAND_LINE, Bench, by_name
from tests.infra.terraform_cli import ROOT
from tests.infra.terraform_text import read_configuration

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
    before = render_variables(by_name(given) | DEPLOYMENT, {})
    values = render_variables(by_name(given | PRIVATE) | DEPLOYMENT, {})
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


def grant(bench: Bench, **inputs: str) -> None:
    """Run the script on a pretended cloud."""
    bench.run("private-grants.sh", {"PROJECT_ID": "home-project"} | inputs)


def read_grants(bench: Bench) -> list[tuple[str, str, str]]:
    """Return account, role and object of each grant, in the page's words."""
    found = []
    for member, role, where in bench.grants:
        account = member.partition(":")[2].removesuffix(".gserviceaccount.com").removesuffix(".iam")
        account = account.replace("123456789", "NUMBER").replace("tpu-provisioner-deployer", "NAME-deployer")
        found.append((account.replace("@home-project", "@PROJECT"), role, PLACES[where]))
    return found


def test_the_page_lists_what_the_script_grants(bench: Bench) -> None:
    section = (ROOT / "docs/rights.md").read_text().split("## Google's own accounts")[1]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    messages = [(row[0].strip(" `"), row[1].strip(" `"), row[2].strip(" `")) for row in rows]
    grant(bench, **EVERYTHING)

    assert sorted(read_grants(bench)) == sorted(messages)


def test_services_that_were_never_used_get_their_accounts_before_the_grant(bench: Bench) -> None:
    grant(bench, SERVICES_KMS_KEY=KEY)
    calls = [" ".join(call) for call in bench.calls]

    for service in ("pubsub", "cloudfunctions", "run", "eventarc", "artifactregistry"):
        assert any(f"services identity create --service={service}.googleapis.com" in call for call in calls)
    assert any("storage service-agent" in call for call in calls)


def test_one_region_needs_one_key(bench: Bench) -> None:
    grant(bench, REGION="us-east5", KMS_KEY=KEY)
    granted = {account for account, _, _ in read_grants(bench)}

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
def test_what_is_missing_or_wrong_is_told(bench: Bench, inputs: dict[str, str], complaint: str) -> None:
    done = bench.run("private-grants.sh", {"PROJECT_ID": "home-project"} | inputs, code=1)

    assert complaint in done.stderr
    assert bench.grants == []
