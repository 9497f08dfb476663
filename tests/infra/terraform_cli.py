"""Runs `terraform` on copies of the project's configurations, so that the tree stays clean.

The provider comes from where Terraform itself finds it: its registry, or a plugin folder
(https://developer.hashicorp.com/terraform/cli/config/config-file#implied-local-mirror-directories).
"""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

from tests.program_runs import run_program

ROOT = Path(__file__).resolve().parents[2]
TERRAFORM = ROOT / "infra/terraform"
GOOGLE_MODULES = ("modules/environment", "modules/provisioner")
ARCHIVE_MODULE = "modules/functions_archive"
"""The one module of the provider hashicorp/archive.

The provider hashicorp/google suffices for the tests: Terraform only evaluates this module's
sources, and the copy of the root has a module in its place that needs none.
"""
MODULES = (*GOOGLE_MODULES, ARCHIVE_MODULE)
CONFIGURATIONS = (*GOOGLE_MODULES, ".")  # the modules and the root, by their folders
ARCHIVE = 'output "path" {\n  description = "As the real one."\n  value       = var.path\n}\n'
REMEDY = (
    "this test needs terraform >= 1.11: https://developer.hashicorp.com/terraform/install. "
    "Without access to registry.terraform.io, put the provider hashicorp/google 7.45 into ~/.terraform.d/plugins"
)
TIMEOUT_SECONDS = 240


def find_terraform() -> str:
    """Return the path of the program, or fail the test with what to do."""
    found = shutil.which("terraform")
    if found is None:
        pytest.fail(REMEDY)
    return found


@dataclass(frozen=True)
class Workspace:
    """A copy of all configurations, and one of them to work on."""

    folder: Path  # the configuration that commands run in
    data: Path  # where Terraform keeps the provider: outside of the configuration

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run one command. If it is checked, its failure fails the test with all of its output."""
        command = (find_terraform(), *arguments, "-no-color")
        environ = os.environ | {"TF_DATA_DIR": str(self.data), "TF_IN_AUTOMATION": "1"}
        result = run_program(*command, cwd=self.folder, env=environ, seconds=TIMEOUT_SECONDS)
        if check and result.returncode != 0:
            hint = f"\n{REMEDY}" if arguments[0] == "init" else ""
            pytest.fail(f"terraform {' '.join(arguments)}:\n{result.stdout}{result.stderr}{hint}")
        return result

    def initialise(self) -> Self:
        """Fetch the provider; no backend is asked."""
        self.run("init", "-backend=false", "-input=false")
        return self

    def validate(self) -> list[dict[str, Any]]:
        """Return Terraform's own findings, warnings included."""
        output = json.loads(self.run("validate", "-json", check=False).stdout)
        found: list[dict[str, Any]] = output["diagnostics"]
        return found

    def test(self) -> dict[str, str]:
        """Run every tests/*.tftest.hcl, return the status of each run by name; all must pass."""
        result = self.run("test", "-json", check=False)
        lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
        runs = [
            line["test_run"] for line in lines if line.get("type") == "test_run" and "status" in line["test_run"]
        ]
        found = {
            f"{run['path']}: {run['run']}": run["status"] for run in runs if run.get("progress") == "complete"
        }
        if result.returncode != 0 or not found:
            messages = [f"{line.get('@message')} {line.get('diagnostic', {}).get('detail', '')}" for line in lines]
            pytest.fail("terraform test:\n" + "\n".join(messages) + result.stderr)
        return found


def copy_workspace(name: str, target: Path) -> Workspace:
    """Return a workspace on a copy of ``infra/terraform/NAME``, with its modules beside it.

    The lock file stays out: a provider in a plugin folder may have another checksum.
    """
    copy = target / "terraform"
    ignored = shutil.ignore_patterns(".terraform*", "*.tfstate*")
    shutil.copytree(TERRAFORM, copy, ignore=ignored)
    archive = copy / ARCHIVE_MODULE
    for path in archive.glob("*.tf"):
        path.unlink()
    shutil.copyfile(TERRAFORM / ARCHIVE_MODULE / "variables.tf", archive / "variables.tf")
    (archive / "outputs.tf").write_text(ARCHIVE)
    (target / "build").symlink_to(ROOT / "infra/build")  # the root reads the known versions
    return Workspace(folder=copy / name, data=target / "data")
