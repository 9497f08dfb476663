"""The examples of the training environment work unchanged: all names exist, and they get pools."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.build.render_training import CHIPS, CONFIG_MAP, QUEUE, find_slice, read_environment
from shared.core.labels import ACCELERATOR, TOPOLOGY
from tests.infra.build_scripts import PROVISION, ROOT, load
from tests.infra.terraform_text import read_configuration
from tests.program_runs import run_python

FILES = sorted((ROOT / "examples/training").glob("*.yaml"))
EXAMPLES = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def read_jobset(path: Path) -> dict[str, Any]:
    (found,) = yaml.safe_load_all(path.read_text())
    return dict(found)


def list_pods(jobset: dict[str, Any]) -> dict[str, dict[str, Any]]:
    jobs = jobset["spec"]["replicatedJobs"]
    return {job["name"]: job["template"]["spec"]["template"]["spec"] for job in jobs}


def plan(path: Path) -> list[dict[str, Any]]:
    options = ("--zone=us-east5-b", "--json")
    done = run_python("-m", "cli", "plan", path, *options, cwd=ROOT, succeeds=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)["slices"]
    return found


@EXAMPLES
def test_an_example_names_what_the_build_makes_by_default(path: Path) -> None:
    jobset = read_jobset(path)
    variables = {
        each.name: each.body for each in read_configuration(ROOT / "infra/terraform/complete").of("variable")
    }

    assert jobset["metadata"]["namespace"] == load(PROVISION)["substitutions"]["_NAMESPACE"]
    assert jobset["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == QUEUE
    for pod in list_pods(jobset).values():
        assert pod["serviceAccountName"] == variables["tpu_sa_name"]["default"]
        for container in pod["containers"]:
            sources = container.get("envFrom", [])
            assert all(each == {"configMapRef": {"name": CONFIG_MAP}} for each in sources)
            known = {each["name"] for each in container.get("env", [])} | (
                set(read_environment({})) if sources else set()
            )
            assert set(re.findall(r"\$\{?([A-Z][A-Z_]+)", container["args"][0])) <= known


@pytest.mark.parametrize("path", [*FILES, ROOT / "examples/first-slice.yaml"], ids=lambda path: path.stem)
def test_an_example_fits_the_slice_and_queue_of_the_walk_and_gets_its_pool(path: Path) -> None:
    (tpu_type,) = set(re.findall(r"_TPU_TYPE=([\w-]+)", (ROOT / "docs/deploy.md").read_text()))
    chosen = find_slice(tpu_type)
    jobset = read_jobset(path)
    pod = list_pods(jobset)["slice"]

    assert jobset["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == QUEUE
    assert pod["nodeSelector"] == {ACCELERATOR: chosen.accelerator, TOPOLOGY: chosen.topology}
    hosts = chosen.chips // pod["containers"][0]["resources"]["limits"][CHIPS]
    (found,) = plan(path)
    assert (found["decision"], found["node_count"], found["chips"]) == ("create", hosts, chosen.chips)
