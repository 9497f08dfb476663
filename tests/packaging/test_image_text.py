"""The exporter's image by its Dockerfile, and its file tree started as the container starts it.

No engine is needed here. That the image builds, and how large it is, needs one.
"""

import re
from pathlib import Path

from tests.infra.chart import CONTAINER, POD
from tests.packaging.libraries import list_pinned, run_alone

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "exporter/Dockerfile").read_text()
REQUIREMENTS = (ROOT / "exporter/requirements.txt").read_text()
SETTINGS = {
    "TPU_PROVISIONER_CLUSTER": "projects/p/locations/l/clusters/c",
    "TPU_PROVISIONER_TOPIC": "projects/p/topics/events",
}
PYTHONS = {"12": "3.11", "13": "3.13"}
"""Of each Debian: https://packages.debian.org/search?keywords=python3."""


def test_both_bases_have_one_python_and_libraries_come_by_their_checksums() -> None:
    builder = re.search(
        r"^ARG BUILDER=python:(\d+\.\d+)\.\d+-slim-\w+@sha256:[0-9a-f]{64}$", DOCKERFILE, re.MULTILINE
    )
    name = r"^ARG RUNTIME=gcr\.io/distroless/python3-debian(\d+):nonroot@sha256:[0-9a-f]{64}$"
    runtime = re.search(name, DOCKERFILE, re.MULTILINE)

    assert builder
    assert runtime
    assert PYTHONS[runtime[1]] == builder[1]
    for option in ("--require-hashes", "--no-deps", "--only-binary=:all:"):
        assert f'"{option}"' in DOCKERFILE
    for line in re.sub(r"\\\n", "", REQUIREMENTS).splitlines():
        if line and not line.lstrip().startswith("#"):
            assert re.match(r"[a-z0-9-]+==\S+( ; [^-]+)?\s+--hash=sha256:[0-9a-f]{64}", line), line


def test_the_image_runs_as_the_pod_does() -> None:
    context, (port,) = POD["spec"]["securityContext"], CONTAINER["ports"]

    assert f"\nUSER {context['runAsUser']}:{context['runAsGroup']}\n" in DOCKERFILE
    assert f"\nEXPOSE {port['containerPort']}\n" in DOCKERFILE
    assert "command" not in CONTAINER


def test_what_is_copied_and_listed_is_all_that_the_exporter_needs(tmp_path: Path) -> None:
    for folder in re.findall(r"^COPY (\w+) /app/", DOCKERFILE, re.MULTILINE):
        (tmp_path / folder).symlink_to(ROOT / folder)
    names = list_pinned(ROOT / "exporter/requirements.txt")
    run_alone("import exporter.__main__", names, tmp_path / "libraries", cwd=tmp_path, environ=SETTINGS)
