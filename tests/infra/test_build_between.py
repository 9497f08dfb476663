"""What one build leaves to the next: inputs, a lock, grants, roles, an older release's defaults."""

import json
import subprocess
from typing import Any

import pytest

from infra.build.check_plan import refuse_losses
from infra.build.move_grants import list_moves
from infra.build.render_variables import keep_older
from tests.infra.build_scripts import OLD_COMMAND_LINE, PROVISION, Bench
from tests.infra.first_release import COMMIT
from tests.infra.pretended_deployment import CLUSTER, a_change, a_plan, a_resource, a_state
from tests.infra.terraform_cli import ROOT
from tests.program_runs import run_program

BUCKET, FOLDER = "gs://old-state-bucket", "tpu-environment"
GRANT = "module.environment.google_storage_bucket_iam_member.workload"
STALE = """
Error: Saved plan is stale

The given plan file can no longer be applied because the state was changed by
another operation after the plan was created.
"""
"""Terraform's words: https://github.com/hashicorp/terraform/blob/main/internal/backend/local/backend_local.go."""


def put(bench: Bench, name: str, text: str) -> None:
    """Put an object beside the state."""
    store = bench.folder / "objects"
    store.mkdir(exist_ok=True)
    (store / f"{FOLDER}_{name}").write_text(text)
    buckets = bench.world["buckets"]
    buckets[BUCKET]["objects"].append(f"{FOLDER}/{name}")
    bench.change(buckets=buckets)


def apply(bench: Bench, *errors: str, code: int = 0, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run Terraform's script, whose applies fail with these errors in turn."""
    bench.change(apply_fails=list(errors), calls=[])
    return bench.step("provision-07-terraform.sh", OLD_COMMAND_LINE | inputs, code=code)


def test_a_build_shows_which_inputs_are_not_those_of_the_last_one(environment: Bench) -> None:
    assert "The last build had" not in apply(environment).stdout

    output = apply(environment, _NAMESPACE="research", _LIMIT_CHIPS="64", _ALLOW_DELETE="pool/x").stdout
    assert "The last build had: NAMESPACE=tpu-training\n" in output
    assert "This build has: NAMESPACE=research\n" in output
    assert "This build has: LIMIT_CHIPS=64\n" in output
    assert "ALLOW_DELETE" not in output


def test_inputs_are_those_of_the_last_build_that_has_ended_well(environment: Bench) -> None:
    apply(environment, "Error: quota", code=1, _LIMIT_CHIPS="64")

    assert "This build has: LIMIT_CHIPS=64\n" in apply(environment, _LIMIT_CHIPS="64").stdout
    assert "This build has" not in apply(environment, _LIMIT_CHIPS="64").stdout


def test_a_lock_is_told_with_the_one_command_that_removes_it(environment: Bench) -> None:
    put(environment, "default.tflock", '{"Operation":"OperationTypeApply","Who":"root@build-7"}')
    output = apply(environment).stdout

    assert '"Who":"root@build-7"' in output
    assert f"remove the lock: gcloud storage rm {BUCKET}/{FOLDER}/default.tflock\n" in output
    waits = [word for call in environment.calls for word in call if word.startswith("-lock-timeout=")]
    assert set(waits) == {"-lock-timeout=20m"}


def test_a_plan_that_another_build_made_stale_is_made_again(environment: Bench) -> None:
    output = apply(environment, STALE).stdout
    assert "Another build has changed this deployment meanwhile, so this build plans again" in output

    assert "Terraform failed" in apply(environment, STALE, STALE, STALE, code=1).stderr


def grant(key: str, actions: list[str], before: str = "", after: str = "", **more: str) -> dict[str, Any]:
    """Return the change of one grant on the bucket, in these namespaces."""
    members = [f"principal://x/subject/ns/{each}/sa/cloud-tpu-sa" if each else "" for each in (before, after)]
    values = [{"bucket": "b", "role": "r", "member": each} if each else None for each in members]
    return a_change(f'{GRANT}["{key}"]', *actions, before=values[0], after=values[1]) | more


def test_another_namespace_does_not_take_the_bucket_from_running_jobs() -> None:
    plan = a_plan(grant("kubernetes r", ["delete", "create"], "tpu-training", "research"))
    refused = refuse_losses(plan, "")

    assert "namespace/tpu-training loses its grants, and its jobs that run lose the bucket" in refused
    assert "MORE_NAMESPACES=tpu-training keeps them" in refused
    assert refuse_losses(plan, "namespace/tpu-training") == ""


def test_a_namespace_that_keeps_a_grant_or_belongs_to_the_exporter_is_not_lost() -> None:
    """For example one role fewer in tpu_sa_roles."""
    kept = [grant("a", ["delete"], "tpu-training"), grant("b", ["no-op"], "tpu-training", "tpu-training")]
    exporter = grant(
        "c", ["delete"], "exporter", address="module.provisioner.google_pubsub_topic_iam_member.exporter"
    )

    assert refuse_losses(a_plan(*kept, exporter), "") == ""


def test_a_grant_that_moves_to_another_address_is_moved_and_not_deleted() -> None:
    moved = [
        grant("kubernetes r", ["delete", "create"], "tpu-training", "research"),
        grant("kubernetes in tpu-training r", ["create"], "", "tpu-training"),
        grant("kubernetes in other r", ["create"], "", "other"),
    ]
    moved[0]["change"]["before"]["bucket"] = "b/b"  # as the provider's state has it

    assert refuse_losses(a_plan(*moved), "") == ""
    assert list(list_moves(a_plan(*moved))) == [
        (f'{GRANT}["kubernetes r"]', f'{GRANT}["kubernetes in tpu-training r"]')
    ]


def test_after_a_lost_state_the_custom_roles_of_the_deployment_are_taken_over(bench: Bench) -> None:
    """Else destroy leaves the grants of the first roles: a new time makes other roles."""
    roles = [{"name": f"projects/a-project/roles/tpu_provisioner_node_pools_{time}"} for time in (TIME, EARLIER)]
    bench.change(custom_roles={"a-project": roles})
    bench.run_all(PROVISION, OLD_COMMAND_LINE)
    (plan, *_) = [call for call in bench.calls if call[0] == "terraform" and "plan" in call]

    assert f"-var=deployed_at={TIME}" in plan
    (listing,) = [call for call in bench.calls if call[1:4] == ["iam", "roles", "list"]]
    (filtered,) = [word for word in listing if word.startswith("--filter=")]
    assert 'name~"/tpu_provisioner_node_pools_[0-9]{14}$"' in filtered
    assert 'description~" in project a-project "' in filtered


TIME, EARLIER = "20261124050607", "20261101000000"


def cluster(*, private: bool, address: bool) -> dict[str, Any]:
    return a_resource(
        CLUSTER,
        private_cluster_config=[{"enable_private_nodes": private}],
        control_plane_endpoints_config=[{"ip_endpoints_config": [{"enabled": address}]}],
    )


ELASTIC = a_resource("module.provisioner.google_project_iam_custom_role.pool_sizes")


@pytest.mark.parametrize(
    ("held", "kept"),
    [
        ({}, {}),
        (
            a_state(cluster(private=False, address=True), ELASTIC),
            {"elastic_pools": True, "enable_private_nodes": False, "enable_ip_endpoints": True},
        ),
        (a_state(cluster(private=True, address=False)), {}),
        (a_state(a_resource(CLUSTER)), {"enable_private_nodes": False}),
    ],
)
def test_what_an_older_release_made_by_its_defaults_stays(held: dict[str, Any], kept: dict[str, Any]) -> None:
    values: dict[str, Any] = {"name": "n"}
    told = keep_older(values, held)

    assert values == {"name": "n"} | kept
    assert told == [
        f"Kept as it was made: {name} = {json.dumps(value)}, because no input sets it"
        for name, value in kept.items()
    ]


def test_what_a_person_sets_is_stronger_than_what_was_made() -> None:
    asked = {"elastic_pools": False, "enable_private_nodes": True, "enable_ip_endpoints": False}
    values = dict(asked)

    assert keep_older(values, a_state(cluster(private=False, address=True), ELASTIC)) == []
    assert values == asked


def test_the_way_back_to_the_first_release_is_for_functions_only() -> None:
    """Text test: 0.1.0 gave its network no description, and another description is another network.

    https://github.com/hashicorp/terraform-provider-google/blob/main/website/docs/r/compute_network.html.markdown
    """
    network = "infra/terraform/modules/environment/network.tf"
    done = run_program("git", "-C", ROOT, "show", f"{COMMIT}:{network}", succeeds=True)
    assert "description" not in done.stdout
    assert "description             = local.mark" in (ROOT / network).read_text()

    told = (ROOT / "docs/notes-0.2.0.md").read_text().split("## The way back")[1].split("\n## ")[0]
    assert "functions only" in told
    assert "only if 0.1.0 made the environment" in " ".join(told.split())
