"""The examples of the training environment work unchanged: all names exist, and they get pools."""

import json
import re
import subprocess
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
_PINNED = re.compile(r"[A-Za-z0-9\[\]._-]+==[0-9][0-9.]*")


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


def test_both_examples_of_the_public_environment_are_there() -> None:
    assert [path.name for path in FILES] == ["hello-world.yaml", "maxtext.yaml"]


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


@EXAMPLES
def test_an_example_pins_its_image_and_what_it_installs(path: Path) -> None:
    for pod in list_pods(read_jobset(path)).values():
        for container in pod["containers"]:
            assert re.search(r":\d+\.\d+\.\d+-[\w-]+$", container["image"])
            text = container["args"][0].replace("\\\n", " ")
            for line in re.findall(r"pip install ([^&\n;]+)", text):
                words = [word.strip("'") for word in line.split() if not word.startswith("-")]
                assert words
                assert all(_PINNED.fullmatch(word) for word in words), line


@EXAMPLES
def test_the_line_for_two_slices_changes_the_slices_only(path: Path) -> None:
    text = path.read_text()
    found = re.search(r"sed 's/(.+?)/(.+?)/' examples/training/(\S+) ", text)
    assert found
    assert found[3] == path.name
    body = text[text.index("apiVersion:") :]
    assert body.count(found[1]) == 1
    changed = yaml.safe_load(body.replace(found[1], found[2]))

    counts = {each["name"]: each["replicas"] for each in changed["spec"]["replicatedJobs"]}
    assert counts["slice"] == 2
    assert set(counts.values()) <= {1, 2}


def test_the_uploader_ends_with_the_training_and_never_ends_it() -> None:
    jobset = read_jobset(ROOT / "examples/training/maxtext.yaml")
    pods = list_pods(jobset)
    uploader = pods["tensorboard"]["containers"][0]

    assert jobset["spec"]["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["slice"]}
    assert CHIPS not in str(uploader["resources"])
    assert "annotations" not in jobset["metadata"]  # an exclusive topology would hold the uploader, too
    empty = {"TENSORBOARD": "", "RUN_NAME": "x", "BUCKET_URL": "gs://b", "PATH": "/bin:/usr/bin"}
    command = [*uploader["command"], uploader["args"][0]]
    assert subprocess.run(command, env=empty, timeout=30, check=False).returncode == 0
    assert "until pip install" in uploader["args"][0]
