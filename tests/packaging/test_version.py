"""The command tells its version wherever it runs from."""

from pathlib import Path

from shared import VERSION
from tests.cli.cli_world import run
from tests.program_runs import run_python

ROOT = Path(__file__).resolve().parents[2]


def test_the_command_prints_its_version_before_anything_else_is_read() -> None:
    result = run("--version", "status", environ={"TPU_PROVISIONER_MODUS": "a setting that is refused"})

    assert (result.exit_code, result.stdout) == (0, f"tpu-provisioner {VERSION}\n")


def test_a_checkout_that_is_not_installed_tells_it_too() -> None:
    assert run_python("-m", "cli", "--version", cwd=ROOT).stdout == f"tpu-provisioner {VERSION}\n"
