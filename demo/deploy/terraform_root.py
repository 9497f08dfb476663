"""The real terraform on a copy of one of the project's roots, with a state of its own.

The copy keeps its state in a file. Nothing is written into the project's own folders.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from standins.googlecloud.mock_program import NOT_FOR_CLIENTS

_SECONDS_MAX = 600
_LOCAL_STATE = 'terraform {\n  backend "local" {}\n}\n'


class TerraformFailed(Exception):
    """A command of Terraform failed; the text is what it said."""


class TerraformRoot:
    """A copy of one root with its modules.

    The lock file stays out: a mirror's provider may be built from source, and then has
    another checksum.

    Args:
        roots: The folder with all roots and modules: infra/terraform, or a changed copy of it.
        name: The root.
        folder: An absent folder for the copy.
        clients: The variables by which programs reach the cloud.
        inputs: The root's variables.
    """

    def __init__(
        self, roots: Path, name: str, folder: Path, *, clients: Mapping[str, str], inputs: Mapping[str, Any]
    ) -> None:
        self.roots = folder / "roots"
        self._root, self._data = self.roots / name, folder / "data"
        shutil.copytree(roots, self.roots, ignore=shutil.ignore_patterns(".terraform*", "*.tfstate*"))
        (self._root / "backend_override.tf").write_text(_LOCAL_STATE)
        (self._root / "inputs.auto.tfvars.json").write_text(json.dumps(inputs))
        self._environment = {key: value for key, value in os.environ.items() if key not in NOT_FOR_CLIENTS} | dict(
            clients
        )

    def apply(self, *options: str) -> None:
        """Bring the cloud to what the root says. Raises TerraformFailed: it could not."""
        if not self._data.exists():
            self._run("init")
        self._run("apply", "-auto-approve", *options)

    def destroy(self) -> None:
        """Destroy what was applied. Raises TerraformFailed: something is left."""
        self._run("destroy", "-auto-approve")

    def read_outputs(self) -> dict[str, Any]:
        """Return the outputs as ``terraform output -json`` gives them."""
        found: dict[str, Any] = json.loads(self._run("output", "-json"))
        return found

    def list_resources(self) -> list[str]:
        """Return the addresses of all resources in the state, without those that are only read."""
        return [each for each in self._run("state", "list").splitlines() if ".data." not in each]

    def _run(self, command: str, *options: str) -> str:
        words = ("terraform", f"-chdir={self._root}", command, *options)
        told = {
            "TF_DATA_DIR": str(self._data),
            "TF_IN_AUTOMATION": "1",
            "TF_CLI_ARGS": "-no-color",
            "TF_INPUT": "0",
        }
        done = subprocess.run(
            words, env=self._environment | told, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False
        )
        if done.returncode:
            raise TerraformFailed(f"terraform {command}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
        return done.stdout
