"""The environment's modules and root, judged by Terraform with the real provider's schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.infra.terraform_cli import Workspace, copy_workspace, find_terraform
from tests.infra.terraform_text import read_test_runs

if TYPE_CHECKING:
    from pathlib import Path

FOLDERS = ("modules/environment", "modules/environment/modules/tpu_pools", "complete")
pytestmark = [pytest.mark.terraform, pytest.mark.timeout(600)]  # every run of a configuration starts the provider


@pytest.fixture(scope="module", params=FOLDERS)
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


def test_a_refusal_that_no_longer_happens_is_noticed(tmp_path: Path) -> None:
    """Several are expected of one run: each must be missed on its own."""
    module = copy_workspace("modules/environment/modules/tpu_pools", tmp_path)
    variables = module.folder / "variables.tf"
    wanted = 'can(regex("^[^@]+@[^@]+$", var.node_service_account))'
    text = variables.read_text()
    assert wanted in text
    variables.write_text(text.replace(wanted, 'var.node_service_account != ""'))

    said = module.initialise().run("test", "-filter=tests/refusals.tftest.hcl", check=False)

    assert said.returncode != 0
    assert said.stderr.count("Error: Missing expected failure") == said.stderr.count("Error:") == 1
    assert "The checkable object, var.node_service_account, was expected" in said.stderr
