"""What `plan` says of the inputs here, which people of this job wrote in 2025 and 2026."""

from pathlib import Path
from typing import Any

from tests.cli.cli_world import read_json, run

INPUTS = Path(__file__).parent / "inputs"


def plan(name: str, **environ: str) -> dict[str, Any]:
    """Return what `plan --json` says of one input."""
    answer: dict[str, Any] = read_json("plan", str(INPUTS / name), environ=environ)
    return answer


def plan_needs(name: str, **environ: str) -> dict[str, dict[str, Any]]:
    """Return what `plan --json` says of one input, by workload; the last need of each."""
    return {need["workload"]: need for need in plan(name, **environ)["needs"]}


def print_plan(name: str) -> str:
    """Return what `plan` prints of one input."""
    return run("plan", str(INPUTS / name)).output
