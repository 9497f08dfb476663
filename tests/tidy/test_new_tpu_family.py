"""A new TPU family is one row of the catalogue: a copy of the product serves an invented one."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.program_runs import run_python

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = Path("shared/core/shapes/tpu_catalogue.py")
GENERATED = Path("infra/terraform/modules/environment/catalogue.json")
ROW = """FAMILIES = (
    Family(
        generation="v9x",
        accelerator="tpu-v9x-slice",
        machines=(Machine("ct9x-ultra-4chips", 4, "2x2", multi_host=True),),
        placement=Placement.COMPACT,
        boot_disks=("hyperdisk-extreme",),
        flex_start=True,
        public_names=("v9x",),
        counted_per_chip=1,
        topologies=("2x2", "4x4"),
    ),
"""
ASK = """
import json
from shared.core.decide.demands import decide_planned_demand
from shared.core.decide.limits import count_pool_chips
from shared.core.demand.demand import Demand
from shared.core.identity.pools import PoolSnapshot, PoolStatus
from shared.core.kinds.jobset import JOBSET
from shared.core.kinds.table import list_slices
from shared.core.nodepool import build_node_pool
from shared.core.settings import ClusterSettings, Settings
from shared.edges.workload_objects import read_workload
cluster = "projects/p/locations/us-east5-b/clusters/c"
settings = Settings(clusters={cluster: ClusterSettings(endpoint="https://k")})
selector = {"cloud.google.com/gke-tpu-accelerator": "tpu-v9x-slice", "cloud.google.com/gke-tpu-topology": "4x4"}
selector |= SELECTOR
container = {"name": "main", "resources": {"limits": {"google.com/tpu": 4}}}
pods = {"spec": {"nodeSelector": selector, "containers": [container]}}
job = {"parallelism": 4, "completions": 4, "template": pods}
body = {"metadata": {"name": "train", "namespace": "default", "uid": "u-1"},
        "spec": {"replicatedJobs": [{"name": "w", "replicas": 1, "template": {"spec": job}}]}}
workload = read_workload(JOBSET, body)
(of_spec,) = list_slices(workload)
demand = decide_planned_demand(cluster, workload, of_spec, settings)
if not isinstance(demand, Demand):
    raise SystemExit(demand.message)
pool = build_node_pool(demand, attempt=0, created_at=1, settings=settings)
seen = PoolSnapshot(name="x", status=PoolStatus.RUNNING, node_count=4, machine_type=pool["config"]["machineType"])
print(json.dumps([pool["config"]["machineType"], pool.get("placementPolicy"), pool["initialNodeCount"],
                  pool["config"].get("flexStart", False), count_pool_chips(seen)]))
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The product and its generators, with one more row in the catalogue."""
    for room in ("shared", "infra/build"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / GENERATED).parent.mkdir(parents=True)
    shutil.copy(ROOT / GENERATED, tmp_path / GENERATED)
    text = (tmp_path / CATALOGUE).read_text()
    assert text.count("FAMILIES = (\n") == 1
    (tmp_path / CATALOGUE).write_text(text.replace("FAMILIES = (\n", ROW))
    return tmp_path


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return run_python(*command, cwd=folder, env={"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"})


def test_a_workload_of_the_new_family_gets_its_pool(copy: Path) -> None:
    answer = run(copy, "-c", ASK.replace("SELECTOR\n", "{}\n", 1))

    assert answer.stderr == ""
    assert answer.stdout == '["ct9x-ultra-4chips", {"type": "COMPACT", "tpuTopology": "4x4"}, 4, false, 16]\n'


def test_the_new_family_is_offered_with_flex_start_and_named_where_another_is_not(copy: Path) -> None:
    flexible = '{"cloud.google.com/gke-flex-start": "true"}\n'
    answer = run(copy, "-c", ASK.replace("SELECTOR\n", flexible, 1))
    older = ASK.replace("SELECTOR\n", flexible, 1).replace("tpu-v9x-slice", "tpu-v3-slice")
    refused = run(copy, "-c", older)

    assert answer.stdout.endswith("0, true, 16]\n")
    assert "GKE does not offer flex-start for v3" in refused.stderr
    assert "valid: v9x, v5e, v5p, v6e, tpu7x" in refused.stderr


def test_the_generator_notices_the_new_row_and_writes_it_for_terraform(copy: Path) -> None:
    generator = "infra/build/write_catalogue.py"
    stale = run(copy, generator, "--check")
    written = run(copy, generator)
    fresh = run(copy, generator, "--check")

    assert (stale.returncode, written.returncode, fresh.returncode) == (1, 0, 0)
    assert stale.stdout == ""
    assert stale.stderr == "catalogue.json differs from the catalogue; run infra/build/write_catalogue.py\n"
    assert '"v9x-16": {"topology": "4x4", "nodes": 4, "placement": "compact"}' in (copy / GENERATED).read_text()
