"""The exporter's image by its Dockerfile, and its file tree started as the container starts it.

No engine is needed here. That the image builds, and how large it is, needs one.
"""

import re
import shutil
from importlib import metadata
from pathlib import Path

import pytest

from standins.controlplane.product_manifests import read_objects
from tests.image.image_text import ROOT, Instruction, only, read_context, read_defaults, read_stages
from tests.program_runs import run_python

REQUIREMENTS = ROOT / "exporter/requirements.txt"
SETTINGS = {
    "TPU_PROVISIONER_CLUSTER": "projects/p/locations/l/clusters/c",
    "TPU_PROVISIONER_TOPIC": "projects/p/topics/events",
}


@pytest.fixture(scope="module")
def builder() -> list[Instruction]:
    return read_stages()[1]


@pytest.fixture(scope="module")
def runtime() -> list[Instruction]:
    return read_stages()[-1]


def test_builder_and_runtime_are_chosen_by_arguments_and_have_the_same_python() -> None:
    bases = read_defaults()
    builder = re.fullmatch(r"python:(\d+\.\d+)\.\d+-slim-[a-z]+", bases["BUILDER"])
    runtime = re.fullmatch(r"gcr\.io/distroless/python3-debian(\d+):nonroot", bases["RUNTIME"])

    assert [stage[0].rest for stage in read_stages()[1:]] == ["${BUILDER} AS builder", "${RUNTIME}"]
    assert builder
    assert runtime
    # Which Python a Debian has: https://packages.debian.org/search?keywords=python3.
    assert {"12": "3.11", "13": "3.13"}[runtime[1]] == builder[1]


def test_libraries_come_as_wheels_by_their_checksums_only(builder: list[Instruction]) -> None:
    (pip,) = [each.arguments for each in builder if "pip" in each.arguments]
    pins = re.sub(r"\\\n", "", REQUIREMENTS.read_text())

    assert {"--require-hashes", "--no-deps", "--only-binary=:all:"} <= set(pip)
    for line in pins.splitlines():
        if line and not line.lstrip().startswith("#"):
            assert re.match(r"[a-z0-9-]+==\S+( ; [^-]+)?\s+--hash=sha256:[0-9a-f]{64}", line), line


def test_the_image_runs_as_the_pod_does(runtime: list[Instruction]) -> None:
    (deployment,) = read_objects(ROOT / "infra/kubernetes/exporter/deployment.yaml")
    pod = deployment["spec"]["template"]["spec"]
    context, (port,) = pod["securityContext"], pod["containers"][0]["ports"]

    assert only(runtime, "USER").rest == f"{context['runAsUser']}:{context['runAsGroup']}"
    assert only(runtime, "EXPOSE").rest == str(port["containerPort"])
    assert "command" not in pod["containers"][0]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The image's /app, its libraries copied from the installed ones."""
    for folder in read_context():
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in re.findall(r"^([a-z0-9-]+)==", REQUIREMENTS.read_text(), re.MULTILINE):
        for each in metadata.files(name) or ():
            if ".." not in each.parts and "__pycache__" not in each.parts:
                target = tmp_path / "libraries" / each
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(each.locate(), target)
    return tmp_path


def test_what_is_copied_and_listed_is_all_that_the_exporter_needs(tree: Path) -> None:
    # -S: nothing of the interpreter's own site-packages, as in the image.
    environ = SETTINGS | {"PYTHONPATH": "libraries"}
    for words in (("-m", "exporter", "--check"), ("-c", "import exporter.process")):
        run_python("-S", "-B", *words, cwd=tree, env=environ, succeeds=True)
