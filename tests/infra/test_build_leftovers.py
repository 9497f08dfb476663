"""What the destroy build deletes after a build that failed, and what it says about the rest."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from infra.build.adopt import find_existing, list_imports
from tests.infra import build_cloud, pretended_deployment
from tests.infra.build_scripts import BUILD, DESTROY, OLD_COMMAND_LINE, PROVISION, Bench
from tests.infra.pretended_deployment import a_change, a_plan
from tests.program_runs import run_python


def test_a_protection_that_cannot_be_lifted_stops_the_build_before_it_deletes_anything(environment: Bench) -> None:
    environment.step("terraform-init.sh", OLD_COMMAND_LINE)
    environment.change(calls=[], fail_at=4, fail_text="Error: Failed to write state")
    done = environment.step("destroy-05-terraform.sh", OLD_COMMAND_LINE, code=1)

    assert f"the protection of {pretended_deployment.CLUSTER} cannot be lifted in the state" in done.stderr
    verbs = [call[2:4] for call in environment.calls if call[0] == "terraform"]
    assert [verb[:1] if verb[0] != "state" else verb for verb in verbs] == [
        ["state", "list"],
        ["state", "pull"],
        ["state", "push"],
    ]


def test_a_protection_is_lifted_in_the_state_which_gets_a_higher_serial() -> None:
    def resource(kind: str, **attributes: object) -> dict[str, Any]:
        instances = [{"status": "tainted", "attributes": {"name": "x"} | attributes}]
        return {"mode": "managed", "module": "module.m", "type": kind, "name": "this", "instances": instances}

    given = [
        resource("google_container_cluster", deletion_protection=True),
        resource("google_storage_bucket", force_destroy=False),
    ]
    state = {"serial": 7, "lineage": "l", "resources": given}

    def lift(*addresses: str) -> subprocess.CompletedProcess[str]:
        return run_python(BUILD / "unprotect.py", *addresses, input=json.dumps(state))

    wanted = [
        resource("google_container_cluster", deletion_protection=False),
        resource("google_storage_bucket", force_destroy=True),
    ]
    lifted = json.loads(lift("module.m.google_container_cluster.this").stdout)
    assert lifted == state | {"serial": 8, "resources": [wanted[0], given[1]]}
    both = lift("module.m.google_container_cluster.this", "module.m.google_storage_bucket.this")
    assert json.loads(both.stdout)["resources"] == wanted
    absent = lift("module.m.google_container_cluster.other")
    assert (absent.returncode, absent.stdout) == (1, "")
    assert "google_container_cluster.other is not in the state" in absent.stderr


@pytest.mark.parametrize("delete_state", ["false", "true"])
def test_a_later_run_says_how_to_delete_what_an_earlier_one_kept(bench: Bench, delete_state: str) -> None:
    given = OLD_COMMAND_LINE | {"_IMAGE_REPOSITORY": "training"}
    bench.run_all(PROVISION, given)
    first = "".join(bench.run_all(DESTROY, given | {"_DELETE_STATE": delete_state}))
    bench.change(
        buckets=bench.world["buckets"] | {"gs://training-artifacts": {"objects": []}},
        repositories=["a-project/training"],
    )
    later = "".join(bench.run_all(DESTROY, given | {"_DELETE_ARTIFACTS": "true"}))

    commands = (
        "gcloud storage rm --recursive gs://training-artifacts\n",
        "gcloud artifacts repositories delete training --location=us-east5 --project=a-project\n",
    )
    for command in commands:
        assert f"To delete it later: {command}" in first
        assert f"is not in the state, because an earlier run kept it. To delete it: {command}" in later


def test_destroy_deletes_a_full_bucket_also_without_a_cluster(environment: Bench) -> None:
    environment.step("terraform-init.sh", OLD_COMMAND_LINE)
    left = environment.world["terraform"]
    left["resources"].remove(pretended_deployment.CLUSTER)
    environment.change(terraform=left)

    environment.step("destroy-05-terraform.sh", OLD_COMMAND_LINE | {"_DELETE_ARTIFACTS": "true"})
    assert environment.world["unprotected"] == [pretended_deployment.ARTIFACTS]


MARK = "tpu-environment/unfinished-build"
EXISTS = """
Error: googleapi: Error 409: Topic already exists
  with module.provisioner.google_pubsub_topic.workload_events,
"""


def is_marked(bench: Bench) -> bool:
    return MARK in bench.world["buckets"]["gs://old-state-bucket"]["objects"]


def destroy(bench: Bench, *, code: int = 0, **substitutions: str) -> str:
    bench.step("terraform-init.sh", OLD_COMMAND_LINE)
    environ = bench.environ(DESTROY, OLD_COMMAND_LINE | substitutions)
    return bench.run("destroy-01-workloads.sh", environ | {"PYTHON": "pools"}, code=code).stderr


def test_destroy_refuses_after_a_killed_build_until_a_build_has_ended(bench: Bench) -> None:
    bench.apply(OLD_COMMAND_LINE, build_cloud.KILLED, code=1)
    refused = destroy(bench, code=1)
    assert "the last provision build was killed, or still runs" in refused
    assert "Run the provision build again, then this build" in refused
    destroy(bench, _FORCE="true")
    bench.step("destroy-05-terraform.sh", OLD_COMMAND_LINE | {"_FORCE": "true"})
    assert not is_marked(bench), "its time would block the custom roles of the next deployment"

    bench.apply(OLD_COMMAND_LINE, build_cloud.KILLED, code=1)
    # This one fails by itself, so what the killed one made may still be missing in the state.
    bench.apply(OLD_COMMAND_LINE, "Error: Quota exceeded", code=1)
    assert is_marked(bench)
    bench.apply(OLD_COMMAND_LINE)
    assert not is_marked(bench)
    destroy(bench)


def test_the_next_build_gives_the_custom_roles_the_time_of_the_killed_one(bench: Bench) -> None:
    """Their IDs have it, so that the roles are found and no grant of another role stays."""
    bench.apply(OLD_COMMAND_LINE, build_cloud.KILLED, code=1)
    (killed_at,) = find_times(bench)
    (bench.world_file.with_name("objects") / MARK.replace("/", "_")).write_text("20260102030405\n")
    bench.apply(OLD_COMMAND_LINE)
    assert find_times(bench) == {"20260102030405"}
    bench.apply(OLD_COMMAND_LINE)
    assert min(find_times(bench)) >= killed_at, "the time of this build"


def find_times(bench: Bench) -> set[str]:
    """Return the times that the plans were made with."""
    words = [word for call in bench.calls if "plan" in call for word in call]
    return {word.removeprefix("-var=deployed_at=") for word in words if word.startswith("-var=deployed_at=")}


@pytest.mark.parametrize(
    ("error", "marked"),
    [
        ("Error: Quota exceeded", False),
        ("Error: Failed to persist state to backend", True),
        ("Two interrupts received. Exiting immediately. Note that data loss may have occurred.", True),
    ],
)
def test_a_build_that_fails_by_itself_can_be_destroyed_at_once(bench: Bench, error: str, marked: bool) -> None:
    bench.apply(OLD_COMMAND_LINE, error, code=1)
    assert is_marked(bench) == marked


def test_destroy_deletes_the_state_of_no_deployment_below_its_own_folder(environment: Bench) -> None:
    buckets = environment.world["buckets"]
    packed = "second/functions/functions-0123456789abcdef.zip"
    below = ("functions/default.tfstate", "second/default.tfstate", packed)
    others = [f"tpu-environment/{name}" for name in below]
    buckets["gs://old-state-bucket"]["objects"] += others
    environment.change(buckets=buckets)
    message = "".join(environment.run_all(DESTROY, OLD_COMMAND_LINE | {"_DELETE_STATE": "true"}))

    assert environment.world["buckets"]["gs://old-state-bucket"]["objects"] == others
    assert "Kept: gs://old-state-bucket, which contains other objects" in message


def test_each_resource_is_imported_once_and_then_the_true_cause_is_told(tmp_path: Path) -> None:
    """Terraform refuses a second block: `Duplicate import configuration`."""
    bucket = EXISTS.replace(
        "module.provisioner.google_pubsub_topic.workload_events", pretended_deployment.ARTIFACTS
    )
    denied = "Error: googleapi: Error 403: Permission 'x' denied"
    done = Bench.make(tmp_path).apply(OLD_COMMAND_LINE, EXISTS, bucket + EXISTS, *[denied] * 7, code=1)
    assert done.stdout.count("A killed build created these resources, so this build imports them") == 2
    assert "wait 6 of 6" in done.stdout
    assert "Terraform failed; correct what it says above" in done.stderr
    adopted = (tmp_path / "build/roots/complete/adopted.tf").read_text()
    assert (adopted.count("  to = "), adopted.count(".workload_events\n")) == (2, 1)

    (tmp_path / "again").mkdir()
    done = Bench.make(tmp_path / "again").apply(OLD_COMMAND_LINE, EXISTS, EXISTS, code=1)
    assert "Terraform failed; correct what it says above" in done.stderr


NAT = """
Error: Unable to create RouterNat, existing object already found: map[name:training-nat]
  with module.environment.google_compute_router_nat.this[0],
"""


def test_what_exists_inside_another_resource_is_found_by_the_providers_own_words() -> None:
    """Google has no call that creates a NAT, so the provider itself looks for it.

    https://github.com/hashicorp/terraform-provider-google/blob/v7.45.0/google/services/compute/resource_compute_router_nat.go
    """
    address = "module.environment.google_compute_router_nat.this[0]"
    after = {"project": "p", "region": "us-east5", "router": "training-router", "name": "training-nat"}

    assert find_existing(NAT) == [address]
    (block,) = list_imports(a_plan(a_change(address, "create", after=after)), find_existing(NAT))
    assert 'id = "projects/p/regions/us-east5/routers/training-router/training-nat"' in block
