"""The static TPU pools, really created and removed: Terraform and Google's provider on fake GKE."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import httpx
import pytest

from shared.core.identity.pools import PoolSnapshot, PoolStatus
from standins.fakegke.tests.fakegke_processes import FakeProcess, fake_process
from tests.contract.gke_world import open_edge
from tests.infra.terraform_cli import Workspace, copy_workspace, find_terraform

pytestmark = [pytest.mark.terraform, pytest.mark.timeout(600)]  # several commands, each with a limit of its own

FIXTURE = Path(__file__).parent / "fixtures/static_pools"
CLUSTER = "projects/training-project/locations/us-east5/clusters/alpha"
SPEED = 20_000
"""Virtual seconds per real second: a slice takes 30 ms, a stockout half a second."""
SCENARIO = """
policies: []  # a tpu7x pool is refused unless its policy has been made before
timings: {keep_operations: 1000000000}  # at this speed, a day would be over between two polls of Terraform
"""
NO_CHANGES = 0
"""What `terraform plan -detailed-exitcode` ends with; 2 if there are any, 1 if it fails."""
GROUP = {"MultisliceGroup": "multi-slice-group", "MultisliceGroupSize": "2"}
SLICES = {
    "multi": {"tpu_type": "v6e-16", "pools": 2},
    "single": {"tpu_type": "v6e-8", "pools": 1},
    "ironwood": {"tpu_type": "tpu7x-128", "pools": 1},
    "spot": {"tpu_type": "v5litepod-16", "pools": 1, "capacity": "spot"},
    "scaled": {"tpu_type": "v4-16", "pools": 1, "autoscaling": True},
}
"""Every branch of the module: both placements and none, both ways to buy, both ways to size."""
MADE = {
    "multi-0": ("ct6e-standard-4t", "4x4", 4),
    "multi-1": ("ct6e-standard-4t", "4x4", 4),
    "single-0": ("ct6e-standard-8t", "", 1),
    "ironwood-0": ("tpu7x-standard-4t", "4x4x4", 16),
    "spot-0": ("ct5lp-hightpu-4t", "4x4", 4),
    "scaled-0": ("ct4p-hightpu-4t", "2x2x2", 2),
}
"""Machine type, topology and hosts (of the scaled pool: at most) by the pool's name."""


@dataclass(frozen=True)
class Stage:
    """A configuration, and the fake GKE that it is applied to."""

    workspace: Workspace
    fake: FakeProcess

    def declare(self, slices: dict[str, Any]) -> None:
        """Write down what shall be there."""
        values = {"fake": self.fake.rest, "slices": slices}
        (self.workspace.folder / "terraform.tfvars.json").write_text(json.dumps(values))

    def apply(self, *, check: bool = True) -> CompletedProcess[str]:
        return self.workspace.run("apply", "-auto-approve", "-input=false", check=check)

    def plan(self) -> CompletedProcess[str]:
        return self.workspace.run("plan", "-detailed-exitcode", "-input=false", check=False)

    def destroy(self) -> None:
        self.workspace.run("destroy", "-auto-approve", "-input=false")

    def add_fault(self, **fault: Any) -> None:
        httpx.post(f"{self.fake.rest}/admin/faults", json=fault).raise_for_status()

    def calls(self, method: str) -> list[str]:
        """Return the pools for which a method was called, in order."""
        calls = httpx.get(f"{self.fake.rest}/admin/calls").raise_for_status().json()["calls"]
        return [call["pool"] for call in calls if call["method"] == method]

    def pools(self) -> dict[str, PoolSnapshot]:
        """Return the pools as the provisioner sees them, by name."""
        edge = open_edge(self.fake.rest)
        return {pool.name: pool for pool in edge.list(CLUSTER)}

    def policies(self) -> list[str]:
        url = f"{self.fake.rest}/compute/v1/projects/training-project/regions/us-east5/resourcePolicies"
        return [each["name"] for each in httpx.get(url).raise_for_status().json()["items"]]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    find_terraform()
    workspace = copy_workspace("modules", tmp_path)
    workspace = replace(workspace, folder=workspace.folder.with_name("static_pools"))
    shutil.copytree(FIXTURE, workspace.folder)
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(SCENARIO)
    arguments = ["--project", "training-project", "--speed", str(SPEED), "--faults", str(scenario)]
    with fake_process(tmp_path, *arguments) as fake:
        yield Stage(workspace.initialise(), fake)


def test_pools_of_every_kind_are_made_once_and_leave_nothing(stage: Stage) -> None:
    stage.declare(SLICES)
    stage.apply()

    pools = stage.pools()
    assert {name: (pool.machine_type, pool.topology, pool.node_count) for name, pool in pools.items()} == MADE
    assert {pool.status for pool in pools.values()} == {PoolStatus.RUNNING}
    assert [name for name, pool in pools.items() if pool.owner is not None] == []
    assert stage.policies() == ["training-4x4x4"]

    again = stage.plan()
    assert again.returncode == NO_CHANGES, again.stdout + again.stderr

    stage.destroy()
    assert (stage.pools(), stage.policies()) == ({}, [])


def test_a_pool_that_meets_a_stockout_is_made_by_the_next_apply(stage: Stage) -> None:
    stage.declare({"tpu": {"tpu_type": "v6e-16", "pools": 1}})
    stage.apply()
    stage.add_fault(switch="outcome", kind="stockout", pool="tpu-1", count=1)
    stage.declare({"tpu": {"tpu_type": "v6e-16", "pools": 2}})

    failed = stage.apply(check=False)

    assert failed.returncode != 0
    assert 'NodePool tpu-1 was created in the error state "ERROR"' in failed.stderr
    assert stage.pools()["tpu-1"].status == PoolStatus.ERROR
    assert "GCE_STOCKOUT" in stage.pools()["tpu-1"].error

    stage.apply()

    pools = stage.pools()
    assert {pool.status for pool in pools.values()} == {PoolStatus.RUNNING}
    assert [pool.labels for pool in pools.values()] == [GROUP, GROUP]
    assert stage.calls("CreateNodePool") == ["tpu-0", "tpu-1", "tpu-1"]
    assert stage.calls("DeleteNodePool") == ["tpu-1"]
    again = stage.plan()
    assert again.returncode == NO_CHANGES, again.stdout + again.stderr
