"""Every module and root, judged by Terraform itself with the real provider's schema."""

import pytest

from tests.infra.terraform_cli import CONFIGURATIONS, Workspace, copy_workspace, find_terraform
from tests.infra.terraform_text import read_test_runs

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
