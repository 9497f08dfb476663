"""The Terraform modules are laid out as Terraform's registry expects, with an example each.

`make test-module-tables` compares the tables of their pages with the modules, word by word.
"""

import re
import shutil
from pathlib import Path

import pytest

from tests.infra.terraform_cli import GOOGLE_MODULES, MODULES, TERRAFORM, copy_workspace
from tests.infra.terraform_text import read_configuration

EXAMPLE = "examples/basic"
LAYOUT = ("README.md", "main.tf", "variables.tf", "outputs.tf", "versions.tf", f"{EXAMPLE}/main.tf")
"""https://developer.hashicorp.com/terraform/language/modules/develop/structure."""
PLAN = """
mock_provider "google" {
  MOCKS
}

run "a_plan" {
  command = plan
}
"""


def test_every_module_is_known_here() -> None:
    found = {str(path.parent.relative_to(TERRAFORM)) for path in (TERRAFORM / "modules").rglob("outputs.tf")}

    assert found == set(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_has_the_files_of_the_standard_structure(module: str) -> None:
    assert [each for each in LAYOUT if not (TERRAFORM / module / each).is_file()] == []


@pytest.mark.parametrize("module", MODULES)
def test_the_page_names_each_input_and_output(module: str) -> None:
    configuration = read_configuration(TERRAFORM / module)
    tables = (TERRAFORM / module / "README.md").read_text().partition("## Inputs")[2]
    named = re.findall(r"^\| (\w+) \|", tables, re.MULTILINE)

    assert sorted(set(named) - {"Name"}) == sorted(
        {each.name for kind in ("variable", "output") for each in configuration.of(kind)}
    ), "run: make module-tables"


@pytest.mark.terraform
@pytest.mark.timeout(600)
@pytest.mark.parametrize("module", GOOGLE_MODULES)
def test_the_example_is_valid_and_can_be_planned(module: str, tmp_path: Path) -> None:
    workspace = copy_workspace(f"{module}/{EXAMPLE}", tmp_path)
    main = workspace.folder / "main.tf"
    main.write_text(main.read_text().replace("my-project", "training-project"))  # as the mocks' answers say
    answers = workspace.folder / "../../tests/mocks"
    mocks = 'source = "../../tests/mocks"' if answers.is_dir() else ""
    (workspace.folder / "plan.tftest.hcl").write_text(PLAN.replace("MOCKS", mocks))
    shutil.copy(TERRAFORM / "modules/provisioner/tests/stand-in.zip", workspace.folder / "functions.zip")

    workspace.initialise()

    assert workspace.validate() == []
    assert workspace.test() == {"plan.tftest.hcl: a_plan": "pass"}
