"""Every module and root, judged by Terraform itself with the real provider's schema."""

import shutil
from pathlib import Path

import pytest

from tests.infra.terraform_cli import (
    CONFIGURATIONS,
    GOOGLE_MODULES,
    TERRAFORM,
    Workspace,
    copy_workspace,
    find_terraform,
)
from tests.infra.terraform_text import read_test_runs

PLAN = """
mock_provider "google" {
  MOCKS
}

run "a_plan" {
  command = plan
}
"""
pytestmark = [pytest.mark.terraform, pytest.mark.timeout(600)]  # every run of a configuration starts the provider


@pytest.fixture(scope="module", params=CONFIGURATIONS)
def workspace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    find_terraform()
    return copy_workspace(request.param, tmp_path_factory.mktemp("work")).initialise()


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


@pytest.mark.parametrize("module", GOOGLE_MODULES)
def test_the_example_is_valid_and_can_be_planned(module: str, tmp_path: Path) -> None:
    workspace = copy_workspace(f"{module}/examples/basic", tmp_path)
    main = workspace.folder / "main.tf"
    main.write_text(main.read_text().replace("my-project", "training-project"))  # as the mocks' answers say
    answers = workspace.folder / "../../tests/mocks"
    mocks = 'source = "../../tests/mocks"' if answers.is_dir() else ""
    (workspace.folder / "plan.tftest.hcl").write_text(PLAN.replace("MOCKS", mocks))
    shutil.copy(TERRAFORM / "modules/provisioner/tests/stand-in.zip", workspace.folder / "functions.zip")

    workspace.initialise()

    assert workspace.validate() == []
    assert workspace.test() == {"plan.tftest.hcl: a_plan": "pass"}
