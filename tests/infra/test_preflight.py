"""What is refused before anything is made: names, settings, quotas, and the state."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.build import preflight
from infra.build.preflight import Preflight
from shared.edges.google import GoogleSession
from tests.infra.answering_apis import AnsweringApis
from tests.infra.build_scripts import by_name
from tests.infra.pretended_deployment import a_resource, a_state
from tests.infra.terraform_cli import ROOT, TERRAFORM

WALK = (ROOT / "docs/deploy.md").read_text()
PROJECT = "my-project"
STATE = "/storage/v1/b/my-project-tpu-provisioner-state/o/tpu-provisioner%2Fdefault.tfstate"
REGION = f"/compute/v1/projects/{PROJECT}/regions/us-central1"
NEW_PROJECT = {
    "SSD_TOTAL_GB": 500,
    "DISKS_TOTAL_GB": 4096,
    "IN_USE_ADDRESSES": 8,
    "N2_CPUS": 8,
    "CPUS_ALL_REGIONS": 12,
    "TPU_LITE_PODSLICE_V5": 0,
}
"""The lowest figures that people report: docs/deploy.md has the sources."""


@pytest.fixture
def apis(monkeypatch: pytest.MonkeyPatch) -> Iterator[AnsweringApis]:
    """A new project, whose APIs answer."""
    with AnsweringApis() as server:
        quotas = [{"metric": name, "limit": limit, "usage": 0.0} for name, limit in NEW_PROJECT.items()]
        server.answers[REGION] = {"quotas": quotas}
        server.answers[f"/compute/v1/projects/{PROJECT}"] = {"quotas": quotas}
        machines = [{"name": name} for name in ("n2-standard-2", "ct5lp-hightpu-4t")]
        server.answers[f"/compute/v1/projects/{PROJECT}/zones/us-central1-a/machineTypes"] = {"items": machines}

        def open_here(_endpoint: str, account: Any) -> GoogleSession:
            return GoogleSession(server.url, account)

        monkeypatch.setattr(preflight, "GoogleSession", open_here)
        yield server


def read_walk() -> dict[str, str]:
    """Return the inputs of the walk on docs/deploy.md."""
    found = re.search(r"export SUBSTITUTIONS=(\S+)", WALK)
    assert found
    given = dict(each.split("=", 1) for each in found[1].split(","))
    values = {"$REGION": "us-central1", "$ZONE": "us-central1-a", "$PROJECT_ID-artifacts": "x-artifacts"}
    return by_name({name: values.get(value, value) for name, value in given.items()})


def inputs_of(given: dict[str, str]) -> dict[str, str]:
    """Return inputs as inputs.sh exports them."""
    root = "provisioner" if given.get("CREATE_ENVIRONMENT") == "false" else "complete"
    own = {
        "PROJECT_ID": PROJECT,
        "NAME": "tpu-provisioner",
        "BUILD_FOLDER": "/b",
        "TERRAFORM_ROOT": str(TERRAFORM / root),
        "TF_STATE_BUCKET": f"{PROJECT}-tpu-provisioner-state",
        "TF_STATE_PREFIX": "tpu-provisioner",
        "TPU_PROVISIONER_CREDENTIALS": "anonymous",
    }
    return own | given


def check(given: dict[str, str]) -> Preflight:
    """Run the checks with these inputs."""
    checked = Preflight(inputs_of(given))
    checked.run()
    return checked


def run(**given: str) -> Preflight:
    """Run the checks of the walk with some inputs."""
    return check(read_walk() | given)


def run_with(path: Path, more: dict[str, Any], **given: str) -> Preflight:
    """Run the checks of the walk with a file of variables."""
    path.write_text(json.dumps(more))
    return run(TERRAFORM_VARIABLES=str(path), **given)


def limit(server: AnsweringApis, **limits: float) -> None:
    """Change the limits of quotas."""
    for each in server.answers[REGION]["quotas"]:
        each["limit"] = limits.get(each["metric"], each["limit"])


def test_the_walk_fits_a_new_project_with_its_first_slice(apis: AnsweringApis) -> None:
    found = run()

    assert found.refusals == []
    (told,) = found.notes  # chips are what one asks for first
    assert told.startswith("The first slice would wait: quota TPU_LITE_PODSLICE_V5: 0 of 0 chips are left, and 16")


def test_a_quota_that_is_too_small_is_named_with_what_is_left_and_where_to_ask(apis: AnsweringApis) -> None:
    limit(apis, SSD_TOTAL_GB=80, N2_CPUS=4)
    found = run()

    page = f"https://console.cloud.google.com/iam-admin/quotas?project={PROJECT}"
    disk, cpus = found.refusals
    pool = "are needed for 3 nodes of the CPU pool; change"
    assert disk == (
        f"quota SSD_TOTAL_GB: 80 of 80 GB are left, and 90 {pool} cpu_pool_disk_size, or ask for more: {page}"
    )
    assert (
        cpus == f"quota N2_CPUS: 4 of 4 CPUs are left, and 6 {pool} cpu_pool_machine_type, or ask for more: {page}"
    )


def test_what_the_state_has_is_not_counted_again_nor_addresses_of_private_nodes(apis: AnsweringApis) -> None:
    limit(apis, IN_USE_ADDRESSES=1)
    assert run().refusals == []
    assert "change _PRIVATE_NODES=true" in run(PRIVATE_NODES="false").refusals[0]

    limit(apis, SSD_TOTAL_GB=80, N2_CPUS=4, CPUS_ALL_REGIONS=1)
    apis.answers[STATE] = a_state(
        a_resource("module.environment.google_container_node_pool.cpu", name="cpu-node-pool")
    )
    assert run().refusals == []


def test_a_right_that_is_missing_is_a_note_and_no_refusal(apis: AnsweringApis) -> None:
    for path in (REGION, f"/compute/v1/projects/{PROJECT}", STATE):
        apis.answers[path] = 403
    found = run()

    assert found.refusals == []
    message = "\n".join(found.notes)
    for what in ("Terraform's state", "the region's quotas"):
        assert f"Not checked: {what}" in message
    (refused,) = run(REGION="us-central9").refusals
    assert refused.startswith("REGION: ")
    assert "us-central9" in refused


def test_a_name_that_no_variable_has_is_refused_with_the_nearest(apis: AnsweringApis, tmp_path: Path) -> None:
    found = run_with(tmp_path / "more.json", {"cpu_pool_disksize": 50, "nothing_like_it": 1, "replay_days": 3})

    assert len(found.refusals) == 2
    message = "\n".join(found.refusals)
    near = "cpu_pool_disksize is not a variable of this root; did you mean cpu_pool_disk_size?"
    assert f"TERRAFORM_VARIABLES: {near}" in message
    assert "nothing_like_it is not a variable of this root; valid: alert_email, " in message
    assert apis.asked


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"grace_seconds": "soon"}, "TPU_PROVISIONER_GRACE_SECONDS: is not valid (got 'soon'); valid: "),
        ({"grace_second": "9"}, "TPU_PROVISIONER_GRACE_SECOND: is not a setting; did you mean"),
        ({"own_namespace": "x"}, "settings: own_namespace: Terraform sets it (got 'x'); valid: "),
        ({"workload_policy_prefix": "x-"}, "settings: workload_policy_prefix: Terraform sets it"),
    ],
)
def test_settings_are_parsed_as_the_functions_parse_them(
    apis: AnsweringApis, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    (refused,) = run_with(tmp_path / "more.json", {"settings": settings}).refusals
    assert message in refused
    assert apis.asked


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"tpu_type": "v9-16"}, "TPU_TYPE: is not a TPU type (got 'v9-16'); valid: "),
        ({"cpu_pool_node_count": "three"}, "TERRAFORM_VARIABLES: a value has the wrong form: "),
        ({"settings": 3}, "not a mapping"),
    ],
)
def test_a_value_of_a_wrong_form_is_refused_and_not_a_crash(
    apis: AnsweringApis, tmp_path: Path, more: dict[str, Any], message: str
) -> None:
    apis.answers.clear()
    refusals = run_with(tmp_path / "more.json", more, TPU_TYPE="").refusals

    assert any(message in each for each in refusals), refusals
