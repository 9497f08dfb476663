"""`make demo-deploy`: what real Terraform has deployed runs a JobSet, and is destroyed.

In between, the build's smoke test runs with real gcloud.
"""

import pytest

from tests.infra.build_scripts import ROOT
from tests.program_runs import run_python

SMOKE = "the build's smoke test: The function read demo and found nothing to do, as expected"

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(900)]


def test_the_loop_closes() -> None:
    done = run_python("-m", "demo.deploy", cwd=ROOT, seconds=840, succeeds=True)

    for text in (" resources are there", ": PROVISIONING", "the workload is completed", ": gone", SMOKE):
        assert text in done.stdout
    assert done.stdout.splitlines()[-1].endswith(
        "the loop has closed: deployed, run, destroyed, and nothing is left"
    )
