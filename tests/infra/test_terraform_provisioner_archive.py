"""The zip that Terraform uploads: the staged bundle, with the same bytes at any place and time."""

import json
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.infra.terraform_cli import ARCHIVE_MODULE, ROOT, TERRAFORM, find_terraform
from tests.program_runs import run_program, run_python

SCRIPT = ROOT / "infra/build/stage_functions.py"


def stage(*arguments: str, script: Path = SCRIPT) -> subprocess.CompletedProcess[str]:
    return run_python(script, *arguments)


def copy_sources(target: Path) -> Path:
    """Return the script in a copy of what it packs, with other times and modes."""
    for name in ("functions/main.py", "requirements.txt", "infra/build/stage_functions.py"):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target / name)
    shutil.copytree(ROOT / "shared", target / "shared", ignore=shutil.ignore_patterns("__pycache__"))
    for path in target.rglob("*"):
        if path.is_file():
            path.chmod(0o600)
            os.utime(path, (0, 0))
    return target / "infra/build/stage_functions.py"


def test_the_zip_holds_the_staged_folder_and_does_not_depend_on_place_time_or_modes(tmp_path: Path) -> None:
    elsewhere, folder = copy_sources(tmp_path / "copy"), tmp_path / "folder"

    assert stage(str(folder), "--zip", str(tmp_path / "one.zip")).returncode == 0
    assert stage("--zip", str(tmp_path / "deep/er/two.zip"), script=elsewhere).returncode == 0

    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "deep/er/two.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.zip") as packed:
        found = {name: packed.read(name) for name in packed.namelist()}
    assert found == {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
    assert {"main.py", "requirements.txt", "shared/deliver.py"} <= found.keys()


@pytest.mark.terraform
def test_the_module_for_other_repositories_packs_the_same_files(tmp_path: Path) -> None:
    result = stage("--zip", str(tmp_path / "bundle.zip"))
    module = tmp_path / "checkout/infra/terraform" / ARCHIVE_MODULE
    module.mkdir(parents=True)
    shutil.copyfile(TERRAFORM / ARCHIVE_MODULE / "sources.tf", module / "sources.tf")
    for name in ("functions", "shared", "requirements.txt"):
        (tmp_path / "checkout" / name).symlink_to(ROOT / name)

    answer = run_program(find_terraform(), "console", cwd=module, input="jsonencode(keys(local.sources))\n")

    assert (result.returncode, answer.returncode) == (0, 0), answer.stderr
    with zipfile.ZipFile(tmp_path / "bundle.zip") as packed:
        assert sorted(json.loads(json.loads(answer.stdout))) == sorted(packed.namelist())
