"""Every module and root, judged by Terraform itself with the real provider's schema."""

import re
from pathlib import Path

import pytest

from tests.infra.terraform_cli import CONFIGURATIONS, TERRAFORM, Workspace, copy_workspace, find_terraform
from tests.infra.terraform_text import read_test_runs

pytestmark = [pytest.mark.terraform, pytest.mark.timeout(600)]  # every run of a configuration starts the provider


@pytest.fixture(scope="module", params=CONFIGURATIONS)
def workspace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    find_terraform()
    return copy_workspace(request.param, tmp_path_factory.mktemp("work")).initialise()


@pytest.fixture
def module(tmp_path: Path) -> Workspace:
    return copy_workspace("modules/provisioner", tmp_path)


def test_the_configuration_is_formatted(workspace: Workspace) -> None:
    result = workspace.run("fmt", "-check", "-recursive", "-diff", check=False)

    assert (result.returncode, result.stdout) == (0, "")


def test_the_configuration_is_valid_and_nothing_is_deprecated(workspace: Workspace) -> None:
    assert workspace.validate() == []


def test_every_run_of_the_configurations_own_tests_passes(workspace: Workspace) -> None:
    passed = workspace.test()

    written = read_test_runs(workspace.folder)
    assert len(passed) == len(written)
    assert set(passed.values()) == {"pass"}


def test_a_mistake_is_caught_by_the_providers_schema(module: Workspace) -> None:
    """A guard that cannot fail guards nothing."""
    topics = module.folder / "topics.tf"
    topics.write_text(topics.read_text().replace("ack_deadline_seconds =", "ack_deadline_second ="))

    problems = module.initialise().validate()

    assert any("ack_deadline_second" in each["detail"] for each in problems)


def test_a_cluster_that_cannot_be_reached_is_refused_with_the_command_that_mends_it(module: Workspace) -> None:
    name = "a_cluster_that_nobody_outside_can_reach"
    tests = module.folder / "tests/refusals.tftest.hcl"
    header, *runs = tests.read_text().split("\nrun ")
    (refused,) = [run for run in runs if run.startswith(f'"{name}"')]
    tests.write_text(f"{header}\nrun {re.sub(r'  expect_failures = .*', '', refused)}")

    answer = module.initialise().run("test", "-filter=tests/refusals.tftest.hcl", check=False)

    assert answer.returncode != 0
    flat = " ".join(f"{answer.stdout}{answer.stderr}".replace("│", " ").split())
    command = "gcloud container clusters update train --location=us-east5 --project=training-project"
    assert f"{command} --enable-dns-access" in flat


def test_a_refusal_that_no_longer_happens_is_noticed(tmp_path: Path) -> None:
    """Several are expected of one run: each must be missed on its own."""
    module = copy_workspace("modules/environment/modules/tpu_pools", tmp_path)
    variables = module.folder / "variables.tf"
    wanted = 'can(regex("^[^@]+@[^@]+$", var.node_service_account))'
    text = variables.read_text()
    assert wanted in text
    variables.write_text(text.replace(wanted, 'var.node_service_account != ""'))

    answer = module.initialise().run("test", "-filter=tests/refusals.tftest.hcl", check=False)

    assert answer.returncode != 0
    assert answer.stderr.count("Error: Missing expected failure") == answer.stderr.count("Error:") == 1
    assert "The checkable object, var.node_service_account, was expected" in answer.stderr


def test_nothing_of_terraform_is_left_in_the_tree() -> None:
    left = {path for pattern in ("**/.terraform*", "**/*.tfstate*") for path in TERRAFORM.glob(pattern)}

    assert left == {TERRAFORM / root / ".terraform.lock.hcl" for root in ("complete", "provisioner")}
