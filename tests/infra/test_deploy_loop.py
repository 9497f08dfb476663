"""`make demo-deploy`: what real Terraform has deployed runs a JobSet, and is destroyed.

In between, the build's smoke test runs with real gcloud.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.infra.build_scripts import ROOT

SMOKE = "the build's smoke test: The function read demo and found nothing to do, as expected"

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(900)]


def test_the_loop_closes() -> None:
    command = [sys.executable, "-m", "demo.deploy"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=840, check=False)

    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    for said in (" resources are there", ": PROVISIONING", "the workload is completed", ": gone", SMOKE):
        assert said in done.stdout
    assert done.stdout.splitlines()[-1].endswith(
        "the loop has closed: deployed, run, destroyed, and nothing is left"
    )
