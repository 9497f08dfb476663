"""Licence, versions, forms and hooks are valid and agree with the code."""

import ast
import hashlib
import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from shared.version import VERSION
from tests.program_runs import run_python

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
APACHE_2_0 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
"""SHA-256 of https://www.apache.org/licenses/LICENSE-2.0.txt."""
HOOKS = ROOT / ".pre-commit-config.yaml"
FORMS = ROOT / ".github/ISSUE_TEMPLATE"


def is_accepted(hooks: Path) -> bool:
    """Return whether pre-commit accepts a configuration."""
    return run_python("-m", "pre_commit", "validate-config", hooks).returncode == 0


def is_valid(path: Path, schema: str) -> bool:
    """Return whether a file is what GitHub's schema asks for."""
    return run_python("-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", path).returncode == 0


def test_the_release_workflow_is_valid_by_githubs_schema() -> None:
    assert is_valid(ROOT / ".github/workflows/release.yml", "github-workflows")


def test_the_licence_is_the_unmodified_text() -> None:
    assert hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == APACHE_2_0
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"] == "Apache-2.0"


def test_the_notice_names_files_that_exist() -> None:
    text = (ROOT / "NOTICE").read_text()
    named = set(re.findall(r"(?<![\w/.])(?:shared|standins|infra|tests|requirements)/[\w./-]*\w", text))

    assert len(named) > 5
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def test_the_newest_release_of_the_changelog_is_the_version() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    releases = [re.fullmatch(r"(\d+\.\d+\.\d+) \((\d{4}-\d\d-\d\d)\)", heading) for heading in headings[1:]]

    assert headings[0] == "Unreleased"
    assert all(releases)
    assert releases[0]
    assert releases[0][1] == VERSION


def test_pre_commit_accepts_the_hooks(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text(HOOKS.read_text().replace("language: system", "language: no-such"))

    assert is_accepted(HOOKS)
    assert not is_accepted(broken)


def test_each_hook_runs_a_tool_that_the_development_requirements_pin() -> None:
    """A hook from elsewhere would need the network, and have a pin of its own."""
    (repository,) = yaml.safe_load(HOOKS.read_text())["repos"]
    tools = {hook["id"]: hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in repository["hooks"]}
    pinned = re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements/development.in").read_text(), re.MULTILINE)

    assert repository["repo"] == "local"
    assert {hook["language"] for hook in repository["hooks"]} == {"system"}
    assert tools == {"ruff-check": "ruff", "ruff-format": "ruff", "mypy": "mypy"}
    assert set(tools.values()) <= set(pinned)
    assert [tool for tool in tools.values() if not (BIN / tool).exists()] == []


def list_pinned(requirements: str) -> set[str]:
    """The packages that a file of requirements installs, as modules are named."""
    lines = (ROOT / "requirements" / requirements).read_text()
    return {name.replace("-", "_") for name in re.findall(r"^([a-z0-9-]+)==", lines, re.MULTILINE)}


def list_collected(tree: Path) -> dict[str, set[str]]:
    """The packages that pytest imports when it collects the tests of a folder, and where."""
    found: dict[str, set[str]] = {}
    for path in tree.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:  # of the module: a test's own imports run later
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                found.setdefault(name.partition(".")[0], set()).add(str(path.relative_to(tree)))
    return found


def test_no_test_needs_the_package_of_one_tier_to_be_collected(tmp_path: Path) -> None:
    """pytest collects all tests before it selects those of a tier: one import ends every tier."""
    of_one_tier = (list_pinned("browser.txt") | list_pinned("docs.txt")) - list_pinned("development.txt")
    (tmp_path / "test_early.py").write_text("from playwright.sync_api import Page\n")

    assert {"playwright", "mkdocs"} <= of_one_tier
    assert list_collected(tmp_path)["playwright"] == {"test_early.py"}
    assert {name: paths for name, paths in list_collected(ROOT / "tests").items() if name in of_one_tier} == {}


@pytest.mark.parametrize("name", ["bug_report.yml", "feature_request.yml"])
def test_an_issue_form_is_one_that_github_accepts(name: str, tmp_path: Path) -> None:
    form = yaml.safe_load((FORMS / name).read_text())
    broken = tmp_path / name
    broken.write_text(yaml.safe_dump({**form, "body": []}))

    assert is_valid(FORMS / name, "github-issue-forms")
    assert not is_valid(broken, "github-issue-forms")


def test_the_chooser_of_issue_forms_is_one_that_github_accepts() -> None:
    assert is_valid(FORMS / "config.yml", "github-issue-config")
