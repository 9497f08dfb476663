"""What an owner makes and grants once, is asked for, and takes back; what no build may do."""

import re

import pytest

from tests.infra.bench import Bench

Grant = tuple[str, str, str, str]
DEPLOYER = "serviceAccount:tpu-provisioner-deployer@a-project.iam.gserviceaccount.com"
TRAINING = "projects/a-project/locations/us-east5/clusters/training"
POLICY_ROLES = {"owner", "editor", "resourcemanager.projectIamAdmin", "iam.roleAdmin", "iam.serviceAccountAdmin"}


def list_grants(bench: Bench) -> list[Grant]:
    """Return member, role, object and condition of each grant that was asked for."""
    grants = []
    for _, *call in bench.world["calls"]:
        if "add-iam-policy-binding" in call:
            options = dict(word.lstrip("-").partition("=")[::2] for word in call if word.startswith("--"))
            where = call[call.index("add-iam-policy-binding") + 1]
            grants.append((options["member"], options["role"], where, options.get("condition", "")))
    return grants


def prepare(bench: Bench, *words: str) -> list[Grant]:
    bench.change(calls=[])
    bench.run("bootstrap.sh", "us-east5", "--yes", *words)
    return list_grants(bench)


def test_it_shows_what_it_will_do_and_asks(bench: Bench) -> None:
    refused = bench.run("bootstrap.sh", "us-east5", code=1, ANSWER="n\n")

    assert "account tpu-provisioner-deployer@a-project" in refused.stdout
    assert "roles/container.admin on a-project, only the cluster training" in refused.stdout
    assert "nothing was changed" in refused.stderr
    assert bench.world["accounts"] == []
    bench.run("bootstrap.sh", "us-east5", ANSWER="y\n")
    assert len(bench.world["accounts"]) == 7


def test_a_second_run_changes_nothing_and_new_options_add(bench: Bench) -> None:
    first = prepare(bench)
    made = bench.state
    assert prepare(bench) == first
    assert bench.state == made
    again = prepare(bench, "--cluster=us-east5/training", "--cluster=other-project/us-west4/more")

    assert set(first) <= set(again)
    assert {where for _, _, where, _ in again} >= {"a-project", "other-project"}


def test_the_builds_may_change_no_policy_of_project_accounts_or_roles(bench: Bench) -> None:
    """S1: what a build is allowed is not what an owner is."""
    grants = [each for each in prepare(bench) if each[0] == DEPLOYER]
    roles = {role.removeprefix("roles/") for _, role, _, _ in grants}
    permissions = ",".join(bench.world["roles"].values())

    assert not roles & POLICY_ROLES
    assert "setIamPolicy" not in permissions
    assert "iam." not in permissions
    users = {where for _, role, where, _ in grants if role == "roles/iam.serviceAccountUser"}
    assert users == {
        f"tpu-provisioner-{each}@a-project.iam.gserviceaccount.com"
        for each in ("provision", "collect", "push", "scheduler", "build", "nodes")
    }, "and never the project, where any account could be used"


def test_the_builds_reach_only_the_named_clusters_and_buckets(bench: Bench) -> None:
    """S2 and S3."""
    conditions = {
        role: condition for member, role, _, condition in prepare(bench, "--bucket=data") if member == DEPLOYER
    }

    assert (
        f'resource.name == "{TRAINING}" || resource.name.startsWith("{TRAINING}/")'
        in conditions["roles/container.admin"]
    )
    buckets = re.findall(r'buckets/([^"]+)"', conditions["roles/storage.admin"])
    assert buckets == [
        "a-project-tpu-provisioner-",
        "a-project_us-east5_cloudbuild",
        "123456789-us-east5-cloudbuild-logs",
        "data",
    ]
    # By a name nothing can be created or listed, so these few come without a condition.
    assert "container.clusters.create" in bench.world["roles"]["a-project/tpu_provisioner_builds"]


def test_the_functions_get_the_named_clusters_and_only_provision_the_accounts_of_nodes(bench: Bench) -> None:
    grants = prepare(bench, "--node-account=n@other.iam.gserviceaccount.com", "--cluster=us-east5-b/zonal")
    pools = [each for each in grants if each[1].endswith("_pools")]
    users = [each for each in grants if each[1] == "roles/iam.serviceAccountUser" and each[0] != DEPLOYER]

    assert [member.partition("-")[2].partition("@")[0] for member, *_ in pools] == [
        "provisioner-provision",
        "provisioner-collect",
    ]
    assert all("zones/us-east5-b/clusters/zonal" in condition for *_, condition in pools)
    assert {member.partition("@")[0] for member, *_ in users} == {"serviceAccount:tpu-provisioner-provision"}
    assert {where for _, _, where, _ in users} == {
        "tpu-provisioner-nodes@a-project.iam.gserviceaccount.com",
        "n@other.iam.gserviceaccount.com",
    }


def test_what_needs_the_cluster_is_left_to_a_second_run(bench: Bench) -> None:
    bench.change(refusals={"member=principal://": "Identity Pool does not exist"})
    done = bench.run("bootstrap.sh", "us-east5", "--yes", "--tensorboard=tpu-training/cloud-tpu-sa")

    assert "not yet: the first build makes the cluster; run this again after it" in done.stdout


def test_your_keys_and_subnets_are_opened_to_googles_own_accounts(bench: Bench) -> None:
    subnet = "projects/host-project/regions/us-east5/subnetworks/s"
    grants = prepare(
        bench, "--kms-key=k1", "--services-kms-key=k2", f"--subnet={subnet}", f"--functions-subnet={subnet}"
    )
    keys = {(where, member.partition("@")[2]) for member, _, where, _ in grants if where in ("k1", "k2")}

    assert len([each for each in keys if each[0] == "k1"]) == 4
    assert len([each for each in keys if each[0] == "k2"]) == 6
    users = [member for member, role, where, _ in grants if role == "roles/compute.networkUser" and where == "s"]
    assert len(users) == 4
    assert ("roles/container.hostServiceAgentUser", "host-project") in {each[1:3] for each in grants}


def test_all_of_it_is_taken_back_but_not_while_a_deployment_is_there(bench: Bench) -> None:
    prepare(bench)
    state = bench.folder / "gs/a-project-tpu-provisioner-state/tpu-provisioner/default.tfstate"
    state.parent.mkdir(parents=True)
    state.touch()
    refused = bench.run("bootstrap.sh", "us-east5", "--yes", "--remove", code=1)
    assert "run the destroy build with _DELETE_STATE=true first" in refused.stderr

    state.unlink()
    bench.run("bootstrap.sh", "us-east5", "--yes", "--remove")
    assert (bench.world["accounts"], bench.world["repositories"]) == ([], [])
    assert bench.world["roles"], "Google blocks the id of a deleted role for 37 days"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "REGION: is not valid (got: '')"),
        (("us-east5-b",), "REGION: is not valid (got: 'us-east5-b'); valid: a region with Cloud Scheduler"),
        (
            ("us-east5", "--cluster=training"),
            "--cluster: is not valid (got: training); valid: us-central1/training",
        ),
        (("us-east5", "--name=" + "x" * 21), "--name: is not valid"),
        (("us-east5", "--remov"), "--remov: is not an option"),
        (("us-east5", "us-west1"), "us-west1: is one word too many"),
    ],
)
def test_a_wrong_word_is_refused_before_anything_is_asked(bench: Bench, words: tuple[str, ...], says: str) -> None:
    assert says in bench.run("bootstrap.sh", *words, code=1).stderr
    assert not [call for call in bench.calls if "create" in call or "binding" in call]
