"""Runs the tests in tiers, and says aloud which tier did not run and why.

The first tier needs nothing but PyPI. `TIERS` says what each other one needs. The real tier (marker
`real`) needs a project of Google Cloud, so only a person starts it. None skips quietly: asked for
without what it needs, it fails and says how to get it. No failed test runs again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from standins.google.tests import emulator_process
from tests.browser import browser_tools
from tests.corpus import corpus_files
from tests.recordings import recorded_traffic

ROOT = Path(__file__).resolve().parents[1]
_TERRAFORM_ROOT = ROOT / "infra/terraform/modules/provisioner/versions.tf"
"""All that a root needs to ask for the provider."""
_LESS_GARBAGE = {"GOGC": "300"}
"""A third of what the start of an API server costs is the collection of garbage, and a fifth of
what Terraform's provider costs, which each plan starts (https://go.dev/doc/gc-guide)."""


@dataclass(frozen=True)
class Tool:
    name: str
    find: Callable[[], bool]
    remedy: str


@dataclass(frozen=True)
class Tier:
    """Tests with a marker of their own, and what they need."""

    title: str
    tools: Sequence[Tool]
    processes: int | None = None  # that share it, where they differ from the usual
    environment: dict[str, str] = field(default_factory=dict)  # unless the caller says otherwise


def find_provider() -> bool:
    """Return whether Terraform finds its provider, as its own `init` of a small root says.

    The lock file stays out because a provider in a plugin folder may have another checksum.
    """
    if shutil.which("terraform") is None:
        return False
    with tempfile.TemporaryDirectory() as root:
        shutil.copy(_TERRAFORM_ROOT, root)
        return _succeeds("terraform", f"-chdir={root}", "init", "-backend=false", "-input=false")


def _succeeds(*command: str) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0


def _on_path(program: str, remedy: str) -> Tool:
    return Tool(program, lambda: shutil.which(program) is not None, remedy)


CONTROLLERS = Tool(
    "KubeRay and the like",
    lambda: _succeeds(sys.executable, "-m", "standins.controlplane", "status", "--with=all"),
    "python -m standins.controlplane build --with=all",
)
TOOLS = (
    _on_path("gcloud", "https://cloud.google.com/sdk/docs/install"),
    _on_path("kubectl", "gcloud components install kubectl"),
    Tool("the Pub/Sub emulator", lambda: emulator_process.find_emulator() is not None, emulator_process.REMEDY),
)
HELM = _on_path("helm", "https://helm.sh/docs/intro/install, or: go install helm.sh/helm/v3/cmd/helm@v3.19.0")
TERRAFORM = (
    _on_path("terraform", "https://developer.hashicorp.com/terraform/install"),
    Tool(
        "Terraform's google provider",
        find_provider,
        "access to registry.terraform.io, or hashicorp/google in ~/.terraform.d/plugins",
    ),
)
ENGINE = Tool(
    "a container engine that answers",
    lambda: _succeeds("docker", "version"),
    "https://docs.docker.com/engine/install",
)
BROWSER = (
    Tool("Chromium", lambda: bool(browser_tools.find_chromium()), browser_tools.CHROMIUM_REMEDY),
    Tool("Playwright", browser_tools.find_driver, browser_tools.DRIVER_REMEDY),
    Tool("axe-core", lambda: bool(browser_tools.find_axe()), browser_tools.AXE_REMEDY),
)
TIERS = {
    "tool": Tier("against gcloud, kubectl and Google's Pub/Sub emulator", TOOLS),
    "helm": Tier("that render the chart with Helm", [HELM]),
    "terraform": Tier("that run Terraform with the google provider", TERRAFORM, environment=_LESS_GARBAGE),
    "image": Tier("that build and run the exporter's image", [ENGINE], processes=0),
    "browser": Tier("that open the board in Chromium", BROWSER, processes=0),
    "corpus": Tier(
        "that put public manifests to `plan`",
        [Tool("the files of the corpus", corpus_files.find_corpus, corpus_files.REMEDY)],
        processes=0,
    ),
    "recordings": Tier(
        "that compare with recorded traffic of Google's APIs",
        [Tool("the recorded traffic", recorded_traffic.find_recordings, recorded_traffic.REMEDY)],
        processes=0,
    ),
    "cluster": Tier("on a real control plane", (), processes=2, environment=_LESS_GARBAGE),
}
"""The cluster tier builds its control plane itself, with Go. Each of its processes runs one."""
FIRST = Tier("that need nothing but PyPI", ())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--tier", choices=sorted(TIERS), help="run this tier only")
    choice.add_argument("--all", action="store_true", help="run every tier but the cluster's, where it can")
    options, rest = parser.parse_known_args()
    if options.tier:
        return _run_tier(options.tier, rest)
    code = _pytest(FIRST, " and ".join(f"not {marker}" for marker in (*TIERS, "real")), rest)
    for marker, tier in TIERS.items():
        # To look for axe-core is to fetch it, so only a run of all tiers looks.
        missing = _list_missing(tier.tools) if options.all else ""
        if options.all and marker != "cluster" and not missing:
            code = code or _pytest(tier, f"{marker} and not cluster", rest)
        else:
            state = f" (missing here: {missing})" if missing else ""
            _say(
                f"NOT RUN: the {marker} tier, the tests {tier.title}{state}; run it with: make test TIER={marker}"
            )
    _say("NOT RUN: the real tier, the tests that ask Google; run it with: python -m pytest tests/real --project=…")
    return code


def _list_missing(tools: Sequence[Tool]) -> str:
    """Return what is missing, each with how to get it; empty for nothing."""
    return "; ".join(f"{tool.name}: {tool.remedy}" for tool in tools if not tool.find())


def _run_tier(marker: str, rest: list[str]) -> int:
    tier, chosen = TIERS[marker], marker
    if marker == "cluster":
        for part, missing in (("tool", _list_missing(TOOLS)), ("controller", _list_missing([CONTROLLERS]))):
            if missing:
                _say(f"NOT RUN: those tests of the cluster tier that are marked {part}; missing: {missing}")
                chosen += f" and not {part}"
        return _pytest(tier, chosen, rest)
    if missing := _list_missing(tier.tools):
        _say(f"The {marker} tier cannot run; missing: {missing}")
        return 1
    return _pytest(tier, f"{marker} and not cluster", rest)


def _pytest(tier: Tier, marker: str, rest: list[str]) -> int:
    """Run tests in more processes than cores: they wait more than they work."""
    _say(f"Running the tests: {marker}")
    cores = os.cpu_count() or 1
    usual = min(5, 3 + cores) if tier is FIRST else min(4, 1 + cores)
    processes = usual if tier.processes is None else tier.processes
    spread = ["-n", str(processes), "--dist", "loadfile", "--no-loadscope-reorder", "-p", "tests.slowest_files"]
    spread += ["--slow-files-fail"] if tier is FIRST else []
    environment = {**tier.environment, **os.environ}
    # A container's image may forbid bytecode: each process of each tier would compile all tests.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "pytest", *spread, "-m", marker, *rest]
    return subprocess.call(command, cwd=ROOT, env=environment)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
