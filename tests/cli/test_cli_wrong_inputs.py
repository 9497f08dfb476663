"""Odd paths, inputs and outputs end in one clear error. Plain mistakes are in screens/wrong.txt."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.cli_world import run, write
from tests.cli.manifests import EXAMPLES

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("path", ["\0", "x" * 5000], ids=["NUL", "long"])
def test_a_path_that_no_system_takes_says_what_is_valid(path: str) -> None:
    result = run("plan", path)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert "; valid: a YAML or JSON file, a folder, or -" in result.stderr


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("explain stockout >/dev/full", 1, "error: standard output: cannot be written: No space left on device"),
        ("plan - <&-", 2, "error: -: contains no workload"),
        ("plan odd.yaml 2>&1", 0, "ConfigMap m\\xfcll"),
    ],
)
def test_an_odd_input_or_output_is_no_traceback(tmp_path: Path, line: str, code: int, told: str) -> None:
    others = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: müll}\n---\n"
    write(tmp_path / "odd.yaml", others + (EXAMPLES / "first-slice.yaml").read_text())
    environ = {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"}
    command = ["/bin/sh", "-c", f"{sys.executable} -m cli {line}"]

    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)

    assert (done.returncode, told in done.stdout + done.stderr) == (code, True), done
    assert "Traceback" not in done.stderr
