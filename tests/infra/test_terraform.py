"""Every module and root, judged by Terraform itself with the real provider's schema.

Terraform runs on copies, so that the tree stays clean. The provider comes from where Terraform
finds it: its registry, or a plugin folder
(https://developer.hashicorp.com/terraform/cli/config/config-file#implied-local-mirror-directories).

Terraform's own tests are written from the tables of a configuration, tests/plans.yaml. Each row is
a `run`. A row of `planned` has inputs, and expressions with their values: an expression may be cut
into a prefix and a table of what follows it. A value that begins with `=` is another expression,
and one that begins with `~` is a part of the text. A row of `refused` has inputs, and names what
refuses them, if that is not each input.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from demo.functions import list_sources
from tests.infra.terraform_text import ARCHIVE_MODULE, CONFIGURATIONS, ROOT, TERRAFORM
from tests.program_runs import run_program

pytestmark = [pytest.mark.terraform, pytest.mark.timeout(600)]  # every run of a configuration starts the provider
ARCHIVE = 'output "path" {\n  description = "As the real one."\n  value       = var.path\n}\n'
"""What stands in the place of the archive's module, whose provider the tests do without."""
TIMEOUT_SECONDS = 240
_PREFIX = re.compile(r"(data\.)?google_\w+\.\S+|values\(.+\)\[\*\]\S*")
"""What a table of attributes may follow; any other table is a value."""


@pytest.fixture(scope="module", params=CONFIGURATIONS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration in a copy of all, with its provider.

    The lock file stays out: a provider in a plugin folder may have another checksum.
    """
    top = tmp_path_factory.mktemp("work")
    ignored = shutil.ignore_patterns(".terraform*", "*.tfstate*")
    shutil.copytree(TERRAFORM, top / "terraform", ignore=ignored)
    archive = top / "terraform" / ARCHIVE_MODULE
    for path in archive.glob("*.tf"):
        path.unlink()
    shutil.copyfile(TERRAFORM / ARCHIVE_MODULE / "variables.tf", archive / "variables.tf")
    (archive / "outputs.tf").write_text(ARCHIVE)
    (top / "build").symlink_to(ROOT / "infra/build")  # the root reads the known versions
    copy: Path = top / "terraform" / request.param
    done = run(copy, "init", "-backend=false", "-input=false")  # no backend is asked
    assert done.returncode == 0, done.stdout + done.stderr
    return copy


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of Terraform in a configuration, beside which it keeps the provider."""
    environ = os.environ | {"TF_DATA_DIR": f"{folder.resolve()}.data", "TF_IN_AUTOMATION": "1"}
    return run_program("terraform", *arguments, "-no-color", cwd=folder, env=environ, seconds=TIMEOUT_SECONDS)


def test_the_configuration_is_formatted(folder: Path) -> None:
    result = run(folder, "fmt", "-check", "-recursive", "-diff")

    assert (result.returncode, result.stdout) == (0, "")


def test_the_configuration_is_valid_and_nothing_is_deprecated(folder: Path) -> None:
    assert json.loads(run(folder, "validate", "-json").stdout)["diagnostics"] == []


def test_every_row_of_the_configurations_tables_is_planned_or_refused(folder: Path) -> None:
    runs = write_tests(folder)
    result = run(folder, "test", "-json")
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    ended = [line["test_run"] for line in lines if line.get("type") == "test_run" and "status" in line["test_run"]]
    states = {f"{each['path']}: {each['run']}": each["status"] for each in ended if each["progress"] == "complete"}
    words = [f"{line.get('@message')} {line.get('diagnostic', {}).get('detail', '')}" for line in lines]

    assert result.returncode == 0, "\n".join([*words, result.stderr])
    assert len(states) == runs
    assert set(states.values()) == {"pass"}


def test_the_zip_holds_what_is_staged_here_to_run_as_it_is_deployed(tmp_path: Path) -> None:
    module = tmp_path / "checkout/infra/terraform" / ARCHIVE_MODULE
    module.mkdir(parents=True)
    shutil.copyfile(TERRAFORM / ARCHIVE_MODULE / "sources.tf", module / "sources.tf")
    for name in ("functions", "shared", "requirements.txt"):
        (tmp_path / "checkout" / name).symlink_to(ROOT / name)

    answer = run_program("terraform", "console", cwd=module, input="jsonencode(keys(local.sources))\n")

    assert answer.returncode == 0, answer.stderr
    assert sorted(json.loads(json.loads(answer.stdout))) == sorted(list_sources())


# --- Terraform's own tests


def write_tests(folder: Path) -> int:
    """Write tests/plans.tftest.hcl of a configuration; return how many runs it has."""
    tables = yaml.safe_load((folder / "tests/plans.yaml").read_text(encoding="utf-8"))
    blocks = [tables["hcl"], _block("variables", _list_inputs(tables["given"]))]
    for name, row in tables["planned"].items():
        lines = [*_list_plan(row), *(line for each in _list_facts(row) for line in _list_assertion(*each))]
        blocks.append(_block(f'run "{_name(name)}"', lines))
    for name, row in tables["refused"].items():
        inputs = {key: value for key, value in row.items() if key not in ("answers", "refused")}
        refused = row.get("refused", [f"var.{key}" for key in inputs])
        lines = [
            "command = plan",
            *_list_plan({**row, "inputs": inputs}),
            f"expect_failures = [{', '.join(refused)}]",
        ]
        blocks.append(_block(f'run "refused_{_name(name)}"', lines))
    (folder / "tests/plans.tftest.hcl").write_text("\n".join(blocks), encoding="utf-8")
    return len(tables["planned"]) + len(tables["refused"])


def _list_plan(row: dict[str, Any]) -> Iterator[str]:
    """Yield a run's inputs, and what Google answers."""
    yield _block("variables", _list_inputs(row.get("inputs", {})))
    for target, values in row.get("answers", {}).items():
        yield _block("override_data", [f"target = {target}", f"values = {_text(values)}"])


def _list_facts(row: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in row.items():
        if isinstance(value, dict) and _PREFIX.fullmatch(key):
            yield from ((f"{key}.{attribute}", each) for attribute, each in value.items())
        elif key not in ("inputs", "answers"):
            yield key, value


def _list_assertion(expression: str, value: Any) -> Iterator[str]:
    condition = f"jsonencode({expression}) == jsonencode({_text(value)})"
    if isinstance(value, str) and value[:1] == "=":
        condition = f"jsonencode({expression}) == jsonencode({value[1:]})"
    elif isinstance(value, str) and value[:1] == "~":
        condition = f"strcontains({expression}, {_text(value[1:])})"
    message = _text(f"{expression}: {value}: it is ").removesuffix('"')
    error = f'error_message = {message}${{jsonencode({expression})}}"'
    yield _block("assert", [f"condition = {condition}", error])


def _list_inputs(values: dict[str, Any]) -> list[str]:
    return [f"{key} = {_text(value)}" for key, value in values.items()]


def _text(value: Any) -> str:
    """JSON is HCL, but for what begins a template."""
    return json.dumps(value, ensure_ascii=False).replace("${", "$${").replace("%{", "%%{")


def _name(text: str) -> str:
    return re.sub(r"\W+", "_", text)


def _block(head: str, lines: list[str]) -> str:
    return "\n".join([f"{head} {{", *lines, "}"])
