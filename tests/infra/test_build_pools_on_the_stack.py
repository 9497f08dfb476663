"""The end of a deployment while a slice works, on the local cloud.

It is refused, then forced, and no pool comes back.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from demo.stack.commands import StackSettings
from demo.stack.layout import CLUSTER_PATH
from demo.stack.local_subscriptions import subscription_path
from demo.stack.stack import Stack
from standins.controlplane.tests.controlplane_worlds import wait_for
from tests.program_runs import run_python

ROOT = Path(__file__).resolve().parents[2]
SPEED = 120.0


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """A stack of this test's own, whose parts stay dead when they are ended."""
    settings = StackSettings(speed=SPEED, restarts=False, run_virtual_seconds=10_000_000)
    with Stack(tmp_path / "stack", settings) as stack:
        yield stack


def first_slice() -> dict[str, Any]:
    """The JobSet of docs/deploy.md."""
    jobset: dict[str, Any] = yaml.safe_load((ROOT / "examples/first-slice.yaml").read_text())
    return jobset | {"metadata": jobset["metadata"] | {"namespace": "default"}}


def list_pools(stack: Stack) -> list[dict[str, Any]]:
    answer = httpx.get(f"{stack.addresses.gke_rest}/v1/{CLUSTER_PATH}/nodePools").raise_for_status().json()
    found: list[dict[str, Any]] = answer.get("nodePools", [])
    return found


def count_running_pods(stack: Stack) -> int:
    pods = httpx.get(f"{stack.addresses.kubernetes}/api/v1/namespaces/default/pods").raise_for_status().json()
    return sum(each["status"].get("phase") == "Running" for each in pods["items"])


def remove_pools(stack: Stack, outputs: Path, *options: str) -> subprocess.CompletedProcess[str]:
    state = outputs.with_name("state.json")
    state.write_text("{}")
    files = (f"--outputs={outputs}", f"--state={state}")
    environ = {
        "TPU_PROVISIONER_CREDENTIALS": "anonymous",
        "TPU_PROVISIONER_GKE_ENDPOINT": stack.addresses.gke_rest,
    }
    program = ROOT / "infra/build/remove_pools.py"
    return run_python(program, *files, *options, env=os.environ | environ)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_working_slice_is_refused_then_forced_away_and_nothing_makes_it_again(
    stack: Stack, tmp_path: Path
) -> None:
    outputs = tmp_path / "outputs.json"
    served = {"main": {"path": CLUSTER_PATH, "endpoint": stack.addresses.kubernetes}}
    outputs.write_text(json.dumps({"clusters": {"value": served}}))
    jobsets = f"{stack.addresses.kubernetes}/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
    httpx.post(jobsets, json=first_slice()).raise_for_status()
    wait_for("four running pods", lambda: count_running_pods(stack) == 4)

    refused = remove_pools(stack, outputs, "--check")
    assert refused.returncode == 1
    assert "JobSet default/first-slice runs" in refused.stdout
    assert len(list_pools(stack)) == 1

    # As destroy-02-exporter.sh and destroy-03-makers.sh do it.
    for part in ("exporter", "ticker"):
        stack.kill(part)
    for function in ("provision", "settle"):
        push = f"{stack.addresses.pubsub_rest}/v1/{subscription_path(function)}:modifyPushConfig"
        httpx.post(push, json={"pushConfig": {}}).raise_for_status()
    done = remove_pools(stack, outputs, "--force", "--pause-seconds=0.3")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "1 of 1 node pools left"
    assert done.stdout.splitlines()[-1] == "0 of 1 node pools left"
    assert list_pools(stack) == []
    assert remove_pools(stack, outputs).stdout == "There are no node pools of the provisioner\n"
