"""Every command of docs/tutorial.md, in its order, in one shell, on a local stack."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.run import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECONDS_MAX = 280
PAGE = (ROOT / "docs/tutorial.md").read_text()
COMMANDS = re.findall(r"^\$ (.+)$", PAGE, re.MULTILINE)
SEEN = [
    ("make up", "The stack is up"),
    ('eval "$(make -s env)"', ""),
    ('alias tpu-provisioner="$PWD/.venv/bin/python -m cli"', ""),
    ("tpu-provisioner doctor", "EXIT 0"),
    ("tpu-provisioner plan examples/v6e-two-slices.yaml", "ct6e-standard-4t"),
    ("kubectl apply -f examples/v6e-two-slices.yaml", "jobset.jobset.x-k8s.io/v6e-two-slices"),
    ("tpu-provisioner status", "v6e-two-slices"),
    ("kubectl get pods", "Running|Completed|Succeeded"),
    ("tpu-provisioner why default/v6e-two-slices", "pool_absent"),
    ("kubectl apply -f examples/unsatisfiable-three-chips.yaml", "jobset.jobset.x-k8s.io/three-chips"),
    ("kubectl describe jobset three-chips", "shape_unsupported"),
    ("tpu-provisioner why default/three-chips", "shape_unsupported"),
    ("kubectl wait --for=condition=Completed jobset/v6e-two-slices --timeout=300s", "condition met"),
    ("kubectl delete -f examples/unsatisfiable-three-chips.yaml", "deleted|not found"),
    ("tpu-provisioner status", "0 pools|[Nn]o pool"),
    ("tpu-provisioner usage --since 1h --by workload", r"default/v6e-two-slices +2 "),
    ("make down", "The stack is down"),
]
"""What each command shows, at once or after some seconds, in its output or its exit code."""
SHELL = """
shopt -s expand_aliases
make() { "$PYTHON" -m demo.stack "${@: -1}" --home="$FOLDER/home"; }
see() {
    while true; do
        output=$(eval "$1" 2>&1; echo "EXIT $?")
        [[ $output =~ $2 ]] && return
        echo "$1"; echo "$output"; sleep 1
    done
}
"""


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The variables of the shell; at the end no stack runs."""
    yield os.environ | {"PYTHON": sys.executable, "FOLDER": str(tmp_path), "TMPDIR": str(tmp_path)}
    down = [sys.executable, "-m", "demo.stack", "down", f"--home={tmp_path / 'home'}"]
    subprocess.run(down, cwd=ROOT, capture_output=True, check=False, timeout=60)


def test_each_command_of_the_tutorial_has_a_row() -> None:
    assert [command for command, _ in SEEN] == COMMANDS


@pytest.mark.tool
@pytest.mark.slow
@pytest.mark.timeout(SECONDS_MAX + 60)
def test_the_tutorial_shows_what_it_says(environment: dict[str, str], tmp_path: Path) -> None:
    lines = [f"see {shlex.quote(command)} {shlex.quote(seen)}" if seen else command for command, seen in SEEN]
    script, log = tmp_path / "tutorial.sh", tmp_path / "log"
    script.write_text("\n".join([SHELL, *lines]))
    with log.open("w") as output:
        try:
            code = subprocess.run(
                ["bash", script],
                cwd=ROOT,
                env=environment,
                stdout=output,
                stderr=output,
                timeout=SECONDS_MAX,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            code = None

    assert code == 0, log.read_text()[-4000:]
