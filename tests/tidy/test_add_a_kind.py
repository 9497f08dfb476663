"""The page "Add a kind of workload" is followed to the letter in a copy of the project."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.program_runs import run_python

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "develop" / "add-a-kind.md").read_text(encoding="utf-8")
COPIED = (
    "cli",
    "docs",
    "examples",
    "exporter",
    "functions",
    "infra",
    "shared",
    "standins",
    "terminal",
    "tests",
    "pyproject.toml",
)
BLOCK = re.compile(r'^```(?P<form>\w+) title="(?P<path>[^"]+)"\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)
SECONDS = 300


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_python("-m", *arguments, cwd=home, seconds=SECONDS)


def change(path: Path, text: str) -> None:
    """Change each place of a file that a difference without line numbers is about."""
    lines = text.splitlines()
    old = "".join(f"{line[1:]}\n" for line in lines if line[0] != "+")
    new = "".join(f"{line[1:]}\n" for line in lines if line[0] != "-")
    before = path.read_text(encoding="utf-8")
    assert old in before, f"{path.name}: the page changes lines that it does not have:\n{old}"
    path.write_text(before.replace(old, new), encoding="utf-8")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project after all steps of the page."""
    found = tmp_path_factory.mktemp("project")
    for each in COPIED:
        source = ROOT / each
        if source.is_dir():
            skipped = shutil.ignore_patterns("__pycache__", ".*", "*.so")
            shutil.copytree(source, found / each, ignore=skipped)
        else:
            shutil.copy(source, found)
    for block in BLOCK.finditer(PAGE):
        path = found / block["path"]
        if block["form"] == "diff":
            change(path, block["text"])
        else:
            assert not path.exists(), f"{path} is there already"
            path.write_text(block["text"], encoding="utf-8")
    return found


def test_a_kind_is_one_module_and_one_row() -> None:
    files = [(block["form"], block["path"]) for block in BLOCK.finditer(PAGE)]
    of_product = {each for each in files if each[1].startswith(("shared/", "cli/", "exporter/", "functions/"))}

    assert of_product == {("python", "shared/core/kinds/workflow.py"), ("diff", "shared/core/kinds/table.py")}


def test_the_kind_of_the_page_is_planned(home: Path) -> None:
    (command,) = re.findall(r"^tpu-provisioner (plan .*)$", PAGE, re.MULTILINE)
    (answer,) = re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

    table = run(home, "cli", *command.split())
    (planned,) = json.loads(run(home, "cli", *command.split(), "--json").stdout)["slices"]

    assert table.returncode == 0, table.stderr
    assert table.stdout.endswith(answer)
    assert (planned["kind"], planned["machine_type"], planned["node_count"]) == ("Workflow", "ct6e-standard-4t", 1)


def test_the_functions_serve_the_kind_of_the_page_with_its_rights_and_messages(home: Path) -> None:
    tests = ("tests/component/test_component_workflow.py", "tests/infra/test_cluster_roles.py")

    found = run(home, "pytest", "-q", "-p", "no:cacheprovider", *tests, "tests/exporter/test_event_schema.py")

    assert found.returncode == 0, found.stdout + found.stderr


def test_the_code_of_the_page_is_as_the_rules_want_it(home: Path) -> None:
    files = [block["path"] for block in BLOCK.finditer(PAGE) if block["form"] == "python"]

    for command in (("check", "--no-cache"), ("format", "--check", "--no-cache")):
        found = run(home, "ruff", *command, *files)
        assert found.returncode == 0, found.stdout


def test_without_the_row_the_object_gets_nothing(home: Path) -> None:
    found = run(ROOT, "cli", "plan", str(home / "workflow.yaml"))

    assert "Workflow nightly (asks for accelerators, but no pools are made for this kind)" in found.stdout
