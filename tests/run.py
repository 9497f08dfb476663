"""Runs the tests in tiers, and says aloud which tier did not run and why.

The first tier needs nothing but PyPI. The tool tier (marker `tool`) needs gcloud, kubectl and Google's Pub/Sub
emulator. The cluster tier (marker `cluster`) needs Go, and builds a real control plane from its modules first.
Neither skips quietly: asked for without a tool, it fails and says how to get it.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]
_EMULATOR_PARENTS = ("../platform/pubsub-emulator", "../../platform/pubsub-emulator")


@dataclass(frozen=True)
class Tool:
    name: str
    find: Callable[[], bool]
    remedy: str


def find_emulator() -> bool:
    """Return whether the emulator lies beside gcloud, where `gcloud components` and packages put it."""
    gcloud = shutil.which("gcloud")
    if gcloud is None:
        return False
    folders = [Path(gcloud).resolve().parent / each for each in _EMULATOR_PARENTS]
    folders.append(Path("/usr/lib/google-cloud-sdk/platform/pubsub-emulator"))
    return any(folder.exists() for folder in folders)


TOOLS = (
    Tool("gcloud", lambda: shutil.which("gcloud") is not None, "https://cloud.google.com/sdk/docs/install"),
    Tool("kubectl", lambda: shutil.which("kubectl") is not None, "gcloud components install kubectl"),
    Tool("java", lambda: shutil.which("java") is not None, "any Java runtime 11 or newer"),
    Tool("the Pub/Sub emulator", find_emulator, "gcloud components install pubsub-emulator"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    tier = parser.add_mutually_exclusive_group()
    tier.add_argument("--tools", action="store_true", help="run the tool tier only")
    tier.add_argument("--cluster", action="store_true", help="run the cluster tier only")
    tier.add_argument("--all", action="store_true", help="run the tool tier too, when its tools are here")
    options, rest = parser.parse_known_args()
    missing = [tool for tool in TOOLS if not tool.find()]
    if options.tools:
        return _run_tools(missing, rest)
    if options.cluster:
        return _pytest("cluster", rest)
    code = _pytest("not tool and not cluster", rest)
    if options.all and not missing:
        code = code or _pytest("tool and not cluster", rest)
    else:
        _say_not_run(missing, asked=options.all)
    _say("NOT RUN: the cluster tier, the tests on a real control plane; run it with: make test-cluster")
    return code


def _run_tools(missing: list[Tool], rest: list[str]) -> int:
    if not missing:
        return _pytest("tool and not cluster", rest)
    _say("The tool tier cannot run; missing:")
    for tool in missing:
        _say(f"  - {tool.name}: {tool.remedy}")
    return 1


def _say_not_run(missing: list[Tool], *, asked: bool) -> None:
    lacking = ", ".join(tool.name for tool in missing)
    state = f"missing here: {lacking}" if missing else "all of its tools are here"
    why = state if asked else f"{state}; run it with: make test-tools"
    _say(f"NOT RUN: the tool tier, the tests against gcloud, kubectl and Google's Pub/Sub emulator ({why}).")


def _pytest(marker: str, rest: list[str]) -> int:
    _say(f"Running the tests: {marker}")
    return subprocess.call([sys.executable, "-m", "pytest", "-m", marker, *rest], cwd=ROOT)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
