"""Runs the tests in tiers, and says aloud which tier did not run and why.

The first tier needs nothing but PyPI. The tool tier (marker `tool`) needs gcloud, kubectl and
Google's Pub/Sub emulator. The helm tier (marker `helm`) needs Helm. The terraform tier (marker
`terraform`) needs that program and the google provider. The image tier (marker `image`) needs a
container engine. The browser tier (marker `browser`) needs the system's Chromium, Playwright, and
axe-core from npm. The corpus tier (marker `corpus`) needs public manifests, from GitHub or from
clones. The recordings tier (marker `recordings`) needs a clone with recorded traffic of Google's
APIs. The cluster tier (marker `cluster`) needs Go, and builds a real control plane from its modules
first. The real tier (marker `real`) needs a project of Google Cloud, so only a person starts it.
None skips quietly: asked for without what it needs, it fails and says how to get it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from standins.google.tests.emulator_process import REMEDY as EMULATOR_REMEDY
from standins.google.tests.emulator_process import find_emulator
from tests.browser.browser_tools import (
    AXE_REMEDY,
    CHROMIUM_REMEDY,
    DRIVER_REMEDY,
    find_axe,
    find_chromium,
    find_driver,
)
from tests.corpus.corpus_files import REMEDY as CORPUS_REMEDY
from tests.corpus.corpus_files import find_corpus
from tests.failed_tests import VARIABLE as FAILURES_VARIABLE
from tests.recordings.recorded_traffic import REMEDY as RECORDINGS_REMEDY
from tests.recordings.recorded_traffic import find_recordings

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]
_TERRAFORM_ROOT = ROOT / "infra/terraform/modules/provisioner/versions.tf"
"""All that a root needs to ask for the provider."""
_FIRST = "not"  # the first word of the first tier's marker: it has what no other tier has
_PROCESSES = {"cluster": 2, "image": 0, "browser": 0, "corpus": 0, "recordings": 0}
"""How many processes share a tier, where it is not as `_count_processes` says: each of the cluster
tier's runs control planes, and there is one engine for all images."""
_ENVIRONMENTS = {tier: {"GOGC": "300"} for tier in ("cluster", "terraform")}
"""What a tier's processes are told, unless the caller says otherwise. A third of what the start of
an API server costs is the collection of garbage, and a fifth of what Terraform's provider costs,
which each plan starts (https://go.dev/doc/gc-guide)."""

_TESTS_FAILED = 1  # pytest's exit code for tests that failed, and for nothing else
_SECOND_RUNS_MAX = 3
"""So many files with failed tests of a tier run again, alone. Real processes share two cores with
each other, and a test that waits for one can lose; tests of one file may share what it started.
More failures have a cause in the code."""


@dataclass(frozen=True)
class Tool:
    name: str
    find: Callable[[], bool]
    remedy: str


def find_provider() -> bool:
    """Return whether Terraform finds its provider, as its own `init` of a small root says.

    The lock file stays out because a provider in a plugin folder may have another checksum.
    """
    if shutil.which("terraform") is None:
        return False
    with tempfile.TemporaryDirectory() as root:
        shutil.copy(_TERRAFORM_ROOT, root)
        command = ["terraform", f"-chdir={root}", "init", "-backend=false", "-input=false"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def find_engine() -> bool:
    """Return whether a container engine answers."""
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "version"], capture_output=True, check=False).returncode == 0


def is_built(*options: str) -> bool:
    """Return whether the control plane is built, with controllers; these only on request."""
    command = [sys.executable, "-m", "standins.controlplane", "status", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0


TOOLS = (
    Tool("gcloud", lambda: shutil.which("gcloud") is not None, "https://cloud.google.com/sdk/docs/install"),
    Tool("kubectl", lambda: shutil.which("kubectl") is not None, "gcloud components install kubectl"),
    Tool("the Pub/Sub emulator", lambda: find_emulator() is not None, EMULATOR_REMEDY),
)
HELM = (
    Tool(
        "helm",
        lambda: shutil.which("helm") is not None,
        "https://helm.sh/docs/intro/install, or: go install helm.sh/helm/v3/cmd/helm@v3.19.0",
    ),
)
TERRAFORM = (
    Tool(
        "terraform",
        lambda: shutil.which("terraform") is not None,
        "https://developer.hashicorp.com/terraform/install",
    ),
    Tool(
        "Terraform's google provider",
        find_provider,
        "access to registry.terraform.io, or hashicorp/google in ~/.terraform.d/plugins",
    ),
)

IMAGE = (Tool("a container engine that answers", find_engine, "https://docs.docker.com/engine/install"),)
BROWSER = (
    Tool("Chromium", lambda: bool(find_chromium()), CHROMIUM_REMEDY),
    Tool("Playwright", find_driver, DRIVER_REMEDY),
)
BROWSER_TO_RUN = (*BROWSER, Tool("axe-core", lambda: bool(find_axe()), AXE_REMEDY))
"""To look for axe-core is to fetch it."""
CORPUS = (Tool("the files of the corpus", find_corpus, CORPUS_REMEDY),)
RECORDINGS = (Tool("the recorded traffic", find_recordings, RECORDINGS_REMEDY),)
_NEEDS = {
    "tool": TOOLS,
    "helm": HELM,
    "terraform": TERRAFORM,
    "image": IMAGE,
    "browser": BROWSER_TO_RUN,
    "corpus": CORPUS,
    "recordings": RECORDINGS,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    tier = parser.add_mutually_exclusive_group()
    tier.add_argument("--tier", choices=sorted([*_NEEDS, "cluster"]), help="run this tier only")
    tier.add_argument("--all", action="store_true", help="run every tier but the cluster's, where it can")
    options, rest = parser.parse_known_args()
    if options.tier == "cluster":
        return _run_cluster(_missing(TOOLS), rest)
    if options.tier:
        return _run_tier(options.tier, _missing(_NEEDS[options.tier]), rest)
    code = _pytest(" and ".join(f"not {marker}" for marker in (*_NEEDS, "cluster", "real")), rest)
    for marker, title, tools in (
        ("tool", "against gcloud, kubectl and Google's Pub/Sub emulator", TOOLS),
        ("helm", "that render the chart with Helm", HELM),
        ("terraform", "that run Terraform with the google provider", TERRAFORM),
        ("image", "that build and run the exporter's image", IMAGE),
        ("browser", "that open the board in Chromium", BROWSER),
        ("corpus", "that put public manifests to `plan`", CORPUS),
        ("recordings", "that compare with recorded traffic of Google's APIs", RECORDINGS),
    ):
        missing = _missing(_NEEDS[marker] if options.all else tools)
        if options.all and not missing:
            code = code or _pytest(f"{marker} and not cluster", rest)
        else:
            _say_not_run(marker, title, missing)
    _say("NOT RUN: the cluster tier, the tests on a real control plane; run it with: make test TIER=cluster")
    _say("NOT RUN: the real tier, the tests that ask Google; run it with: python -m pytest tests/real --project=…")
    return code


def _missing(tools: tuple[Tool, ...]) -> list[Tool]:
    return [tool for tool in tools if not tool.find()]


def _run_cluster(missing: list[Tool], rest: list[str]) -> int:
    marker = "cluster"
    if missing:
        _say(f"NOT RUN: those tests of the cluster tier that need tools (missing here: {_named(missing)}).")
        marker += " and not tool"
    if not is_built("--with=all"):
        _say(
            "NOT RUN: those tests of the cluster tier that need KubeRay and the like; build them: "
            "python -m standins.controlplane build --with=all"
        )
        marker += " and not controller"
    return _pytest(marker, rest)


def _run_tier(marker: str, missing: list[Tool], rest: list[str]) -> int:
    if not missing:
        return _pytest(f"{marker} and not cluster", rest)
    _say(f"The {marker} tier cannot run; missing:")
    for tool in missing:
        _say(f"  - {tool.name}: {tool.remedy}")
    return 1


def _say_not_run(marker: str, title: str, missing: list[Tool]) -> None:
    state = f"missing here: {_named(missing)}" if missing else "all that it needs is here"
    _say(f"NOT RUN: the {marker} tier, the tests {title} ({state}; run it with: make test TIER={marker}).")


def _named(missing: list[Tool]) -> str:
    return ", ".join(tool.name for tool in missing)


def _pytest(marker: str, rest: list[str]) -> int:
    _say(f"Running the tests: {marker}")
    tier = marker.partition(" ")[0]
    processes = _PROCESSES.get(tier, _count_processes(tier))
    spread = ["-n", str(processes), "--dist", "loadfile", "--no-loadscope-reorder"]
    spread += ["-p", "tests.slowest_files", "-p", "tests.failed_tests"]
    spread += ["-p", "tests.longest_first"] if tier == _FIRST else []
    environment = {**_ENVIRONMENTS.get(tier, {}), **os.environ}
    # A container's image may forbid bytecode: each process of each tier would compile all tests.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "pytest"]
    with tempfile.TemporaryDirectory() as directory:
        failures = Path(directory) / "failed"
        told = environment | {FAILURES_VARIABLE: str(failures)}
        code = subprocess.call([*command, *spread, "-m", marker, *rest], cwd=ROOT, env=told)
        failed = failures.read_text(encoding="utf-8").splitlines() if failures.is_file() else []
    files = sorted({name.partition("::")[0] for name in failed})  # the tests of a file may share what they started
    if code != _TESTS_FAILED or not 0 < len(files) <= _SECOND_RUNS_MAX:
        return code
    _say(f"FAILED BESIDE OTHERS: {', '.join(failed)}; run again with their files, alone.")
    code = subprocess.call([*command, "-m", marker, *files], cwd=ROOT, env=environment)
    if code == 0:
        _say(f"UNSTABLE: {', '.join(failed)}: passed alone, after a failure beside others. Find out why.")
    return code


def _count_processes(tier: str) -> int:
    """Return three processes more than cores for the first tier, and one more for others.

    Tests wait more than they work, most of all those of the first tier that follow a workload.
    """
    cores = os.cpu_count() or 1
    return min(5, 3 + cores) if tier == _FIRST else min(4, 1 + cores)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
