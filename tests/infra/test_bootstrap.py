"""What an owner makes and grants once, is asked for, and takes back; what no build may do."""

import re
import runpy
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.infra.bench import Bench, Words, open_bench
from tests.infra.real_gcloud import find_sdk
from tests.rows import rows


class Grant(NamedTuple):
    member: str
    role: str
    where: str
    condition: str


DEPLOYER = "serviceAccount:tpu-provisioner-deployer@a-project.iam.gserviceaccount.com"
TRAINING = "projects/a-project/locations/us-east5/clusters/training"
POLICY_ROLES = {"owner", "editor", "resourcemanager.projectIamAdmin", "iam.roleAdmin", "iam.serviceAccountAdmin"}
SUBNET = "projects/host-project/regions/us-east5/subnetworks/s"
OPTIONS = f"""
    --cluster=us-east5/training --cluster=other-project/us-west4/more --cluster=us-east5-b/zonal --bucket=data
    --node-account=n@other.iam.gserviceaccount.com --tensorboard=tpu-training/cloud-tpu-sa --kms-key=k1
    --services-kms-key=k2 --subnet={SUBNET} --functions-subnet={SUBNET} --dead-letter-bucket=letters
""".split()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A project that an owner has prepared with every option, before there is a cluster."""
    with open_bench(tmp_path_factory.mktemp("prepared")) as bench:
        (bench.folder / "gs/letters").mkdir()
        bench.cloud.refusals = {"member=principal://": "Identity Pool does not exist"}
        done = bench.run("bootstrap.sh", "us-east5", "--yes", *OPTIONS)
        assert "not yet: the first build makes the cluster; run this again after it" in done.stdout
        yield bench


def list_grants(bench: Bench) -> list[Grant]:
    """Return each grant that was asked for."""
    grants = []
    for call in bench.cloud.calls:
        if "add-iam-policy-binding" in call:
            options = Words(call).options
            where = call[call.index("add-iam-policy-binding") + 1]
            grants.append(Grant(options["member"], options["role"], where, options.get("condition", "")))
    return grants


def list_builds(bench: Bench) -> list[Grant]:
    """Return those of the account of the builds."""
    return [each for each in list_grants(bench) if each.member == DEPLOYER]


def test_it_shows_what_it_will_do_and_asks(bench: Bench) -> None:
    refused = bench.run("bootstrap.sh", "us-east5", code=1, ANSWER="n\n")

    assert "account tpu-provisioner-deployer@a-project" in refused.stdout
    assert "roles/container.admin on a-project, only the cluster training" in refused.stdout
    assert "nothing was changed" in refused.stderr
    assert bench.cloud.accounts == []
    bench.run("bootstrap.sh", "us-east5", ANSWER="y\n")
    assert len(bench.cloud.accounts) == 7


def test_the_builds_may_change_no_policy_of_project_accounts_or_roles(prepared: Bench) -> None:
    """S1: what a build is allowed is not what an owner is."""
    grants, permissions = list_builds(prepared), ",".join(prepared.cloud.roles.values())

    assert not {each.role.removeprefix("roles/") for each in grants} & POLICY_ROLES
    assert "setIamPolicy" not in permissions
    assert "iam." not in permissions
    users = {each.where for each in grants if each.role == "roles/iam.serviceAccountUser"}
    assert users == {
        f"tpu-provisioner-{each}@a-project.iam.gserviceaccount.com"
        for each in ("provision", "collect", "push", "scheduler", "build", "nodes")
    }, "and never the project, where any account could be used"


def test_the_builds_reach_only_the_named_clusters_and_buckets(prepared: Bench) -> None:
    """S2 and S3."""
    grants = list_builds(prepared)
    clusters = [each.condition for each in grants if each.role == "roles/container.admin"]
    (buckets,) = [each.condition for each in grants if each.role == "roles/storage.admin"]

    assert len(clusters) == 3
    assert f'resource.name == "{TRAINING}" || resource.name.startsWith("{TRAINING}/")' in clusters[0]
    assert re.findall(r'buckets/([^"]+)"', buckets) == [
        "a-project-tpu-provisioner-",
        "a-project_us-east5_cloudbuild",
        "123456789-us-east5-cloudbuild-logs",
        "data",
    ]
    # By a name nothing can be created or listed, so these few come without a condition.
    assert "container.clusters.create" in prepared.cloud.roles["a-project/tpu_provisioner_builds"]
    assert {each.where for each in grants} >= {"a-project", "other-project"}


def test_the_functions_get_the_named_clusters_and_only_provision_the_accounts_of_nodes(prepared: Bench) -> None:
    pools = [each for each in list_grants(prepared) if each.role.endswith("_pools")]
    users = [each for each in list_grants(prepared) if each.role == "roles/iam.serviceAccountUser"]
    users = [each for each in users if each.member != DEPLOYER]

    functions = [f"serviceAccount:tpu-provisioner-{each}" for each in ("provision", "collect")]
    assert [each.member.partition("@")[0] for each in pools] == functions * 3
    assert all("zones/us-east5-b/clusters/zonal" in each.condition for each in pools[4:])
    assert {each.member.partition("@")[0] for each in users} == {functions[0]}
    nodes = {"tpu-provisioner-nodes@a-project.iam.gserviceaccount.com", "n@other.iam.gserviceaccount.com"}
    assert {each.where for each in users} == nodes


def test_your_keys_and_subnets_are_opened_to_googles_own_accounts(prepared: Bench) -> None:
    objects = Counter((each.role, each.where) for each in list_grants(prepared))
    keys = Counter(each.where for each in list_grants(prepared))

    assert (keys["k1"], keys["k2"]) == (5, 6)
    assert objects["roles/compute.networkUser", "s"] == 4
    assert objects["roles/container.hostServiceAgentUser", "host-project"]


def test_all_of_it_is_made_once_and_taken_back(bench: Bench) -> None:
    """Too early is a mistake of docs/deploy.md: tests/infra/test_mistakes.py."""
    for _ in range(2):
        bench.run("bootstrap.sh", "us-east5", "--yes")
    assert len(bench.cloud.accounts) == 7
    bench.run("bootstrap.sh", "us-east5", "--yes", "--remove")

    assert (bench.cloud.accounts, bench.cloud.repositories) == ([], [])
    assert bench.cloud.roles, "Google blocks the id of a deleted role for 37 days"


@pytest.mark.tool
def test_gcloud_has_every_command_and_flag_that_the_options_use(prepared: Bench) -> None:
    """By the table that gcloud completes command lines from; the other calls it runs itself."""
    table = runpy.run_path(str(find_sdk() / "data/cli/gcloud_completions.py"))["STATIC_COMPLETION_CLI_TREE"]
    calls = [call[1:] for call in prepared.cloud.calls if call[0] == "gcloud"]
    assert len(calls) > 30
    for call in calls:
        node, words = table, list(call)
        while words and words[0] in node["commands"]:
            node = node["commands"][words.pop(0)]
        assert not node["commands"], f"gcloud {' '.join(call)}: no such command"
        flags = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert flags <= node["flags"].keys() | table["flags"].keys(), f"gcloud {' '.join(call)}"


@rows(
    "words says",
    {
        "no region": ("", "REGION: is not valid (got: '')"),
        "a zone": ("us-east5-b", "REGION: is not valid (got: 'us-east5-b'); valid: a region with Cloud Scheduler"),
        "a cluster without its place": ("us-east5 --cluster=c", "--cluster: is not valid (got: c); valid: us-"),
        "a long name": ("us-east5 --name=" + "x" * 21, "--name: is not valid"),
        "a misspelt option": ("us-east5 --remov", "--remov: is not an option"),
        "two regions": ("us-east5 us-west1", "us-west1: is one word too many"),
    },
)
def test_a_wrong_word_is_refused_before_anything_is_asked(bench: Bench, words: str, says: str) -> None:
    assert says in bench.run("bootstrap.sh", *words.split(), code=1).stderr
    assert not [call for call in bench.calls if "create" in call or "binding" in call]
