"""The zip that Terraform uploads holds what is staged here to run as it is deployed."""

import json
import shutil
from pathlib import Path

import pytest

from demo.functions import list_sources
from tests.infra.terraform_cli import ARCHIVE_MODULE, ROOT, TERRAFORM, find_terraform
from tests.program_runs import run_program


@pytest.mark.terraform
def test_the_archive_holds_the_staged_files(tmp_path: Path) -> None:
    module = tmp_path / "checkout/infra/terraform" / ARCHIVE_MODULE
    module.mkdir(parents=True)
    shutil.copyfile(TERRAFORM / ARCHIVE_MODULE / "sources.tf", module / "sources.tf")
    for name in ("functions", "shared", "requirements.txt"):
        (tmp_path / "checkout" / name).symlink_to(ROOT / name)

    answer = run_program(find_terraform(), "console", cwd=module, input="jsonencode(keys(local.sources))\n")

    assert answer.returncode == 0, answer.stderr
    assert sorted(json.loads(json.loads(answer.stdout))) == sorted(list_sources())
