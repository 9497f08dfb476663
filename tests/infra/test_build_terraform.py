"""Terraform itself accepts the variables that the build renders, with the provider's schema."""

import json
import shutil
from pathlib import Path

import pytest

from infra.build.render_variables import render_variables
from tests.infra.build_scripts import BESIDE_A_CLUSTER, OLD_COMMAND_LINE, by_name
from tests.infra.terraform_cli import copy_workspace

pytestmark = [pytest.mark.terraform, pytest.mark.timeout(600)]

PROJECT = "training-project"
"""As the module's mocks call it."""


@pytest.mark.parametrize(
    ("root", "given"),
    [
        ("complete", OLD_COMMAND_LINE),
        (
            "provisioner",
            BESIDE_A_CLUSTER | {"_NODE_SERVICE_ACCOUNTS": f"tpu-nodes@{PROJECT}.iam.gserviceaccount.com"},
        ),
    ],
)
def test_terraform_takes_the_rendered_variables(tmp_path: Path, root: str, given: dict[str, str]) -> None:
    workspace = copy_workspace(root, tmp_path)
    tests = workspace.folder / "tests"
    original = next(tests.glob("*.tftest.hcl")).read_text()
    mocks = original[: original.index("\nvariables {")]
    shutil.rmtree(tests)
    tests.mkdir()
    (tests / "rendered.tftest.hcl").write_text(f'{mocks}\nrun "rendered" {{}}\n')
    (tmp_path / "functions.zip").write_bytes(b"")
    inputs = by_name(given) | {"PROJECT_ID": PROJECT, "NAME": "blue", "LIMIT_CHIPS": "64"}
    values = render_variables(inputs | {"BUILD_FOLDER": str(tmp_path)}, {"replay_days": 3})
    (tmp_path / "variables.tfvars.json").write_text(json.dumps(values))
    done = workspace.initialise().run("test", f"-var-file={tmp_path / 'variables.tfvars.json'}")

    assert "1 passed, 0 failed" in done.stdout
    assert "Warning" not in done.stdout, done.stdout
