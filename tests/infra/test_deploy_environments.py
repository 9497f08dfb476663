"""Two environments in one project of the mock of Google Cloud: one is destroyed, the other stays.

The second one has the names that docs/deploy.md tells people to change.
"""

import re
from pathlib import Path

import pytest

from tests.infra.build_project import Project
from tests.infra.build_scripts import ROOT

pytestmark = [pytest.mark.deploy, pytest.mark.by_hand, pytest.mark.timeout(1800)]


def read_page() -> tuple[list[str], str]:
    """Return the inputs and the file of variables of the page's section about two environments."""
    page = (ROOT / "docs/deploy.md").read_text()
    section = page.partition("\n## Two environments in one project")[2].partition("\n## ")[0]
    words, _, rest = section.partition("```json\n")
    names = [each for each in re.findall(r"`_([A-Z_]+)`", words) if each != "TERRAFORM_VARIABLES"]
    return names, rest.partition("```")[0]


def list_changes(project: Project) -> dict[str, list[str]]:
    """Plan only, and return what the plan would do, by address."""
    project.run("provision-07-terraform.sh", PLAN_ONLY="true")
    return {address: each for address, each in project.read_plan().items() if each not in (["no-op"], ["read"])}


def test_the_end_of_one_environment_changes_nothing_of_the_other(environ: dict[str, str], tmp_path: Path) -> None:
    names, variables = read_page()
    first = Project.make(tmp_path / "first", environ)
    inputs = dict.fromkeys(names, "second-environment") | {"TERRAFORM_VARIABLES": "second.json"}
    second = Project.make(tmp_path / "second", environ, **inputs)
    (second.source / "second.json").write_text(variables)
    first.provision()
    second.provision()
    assert len(second.list_addresses()) == len(first.list_addresses()) > 70
    assert list_changes(second) == list_changes(first) == {}

    second.destroy(DELETE_ARTIFACTS="true")
    assert list_changes(first) == {}
