"""Every module and root, judged by Terraform itself with the real provider's schema."""

import pytest

from tests.infra.terraform_cli import CONFIGURATIONS, Workspace, copy_workspace, find_terraform
from tests.infra.terraform_plans import write_tests

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


def test_every_row_of_the_configurations_tables_is_planned_or_refused(workspace: Workspace) -> None:
    runs = write_tests(workspace.folder)
    passed = workspace.test()

    assert len(passed) == runs
    assert set(passed.values()) == {"pass"}
