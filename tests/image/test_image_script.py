"""The build's script for the exporter's image, with the real docker against a real registry."""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image.image_text import ROOT
from tests.image.own_registry import GOOGLES, RELEASES, OwnRegistry, run_registry
from tests.program_runs import run_program

pytestmark = [pytest.mark.image, pytest.mark.own_engine, pytest.mark.timeout(600)]

REPOSITORY = "a-project/tpu-provisioner-images/exporter"
IMAGE = f"{GOOGLES}/{REPOSITORY}"
INPUTS = {"PROJECT_ID": "a-project", "REGION": GOOGLES.removesuffix("-docker.pkg.dev"), "RETRY_PAUSE_SECONDS": "0"}


@pytest.fixture(scope="module")
def registry() -> Iterator[OwnRegistry]:
    with tempfile.TemporaryDirectory(prefix="image-registry-") as folder, run_registry(Path(folder)) as registry:
        yield registry


def run_script(registry: OwnRegistry, **inputs: str) -> tuple[str, str]:
    """Run it as a build does, whose engine has no such image; return its words and the image."""
    registry.docker("image", "prune", "--all", "--force", "--filter=label=org.opencontainers.image.title")
    assert registry.docker("images", "--quiet", IMAGE) == ""
    build = registry.folder / "build"
    script = ROOT / "infra/build/provision-05-exporter-image.sh"
    environ = registry.environ | INPUTS | {"BUILD_FOLDER": str(build)} | inputs
    done = run_program(*registry.within, "bash", script, env=environ, seconds=400)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout, (build / "exporter-image").read_text().strip()


@pytest.fixture(scope="module")
def first(registry: OwnRegistry) -> str:
    """The image of the first build."""
    said, image = run_script(registry)
    assert f"Building {IMAGE}:source-" in said
    return image


def test_the_first_build_pushes_the_image_that_it_names_by_digest(registry: OwnRegistry, first: str) -> None:
    assert re.fullmatch(rf"{IMAGE}@sha256:[0-9a-f]{{64}}", first)
    ((tag, digest),) = registry.list_tags(REPOSITORY).items()
    assert (tag[:7], f"{IMAGE}@{digest}") == ("source-", first)


def test_a_second_build_of_the_same_source_builds_nothing(registry: OwnRegistry, first: str) -> None:
    before = registry.list_tags(REPOSITORY)
    said, image = run_script(registry)

    assert "The image of this source exists" in said
    assert (image, registry.list_tags(REPOSITORY)) == (first, before)


def test_a_released_image_is_copied_with_its_digest(registry: OwnRegistry, first: str) -> None:
    released = f"{RELEASES}/owner/tpu-provisioner/exporter"
    registry.docker("pull", first)
    registry.docker("tag", first, f"{released}:v1")
    registry.docker("push", f"{released}:v1")
    # As a release is: an index, of which this image is the one for its platform.
    registry.docker("buildx", "imagetools", "create", f"--tag={released}:v2", f"{released}:v1")
    digest = registry.list_tags(released.partition("/")[2])["v2"]

    _, image = run_script(registry, EXPORTER_IMAGE=f"{released}@{digest}")

    assert image == f"{IMAGE}@{digest}"
    assert registry.list_tags(REPOSITORY)[f"released-{digest[7:23]}"] == digest
    registry.docker("pull", image)


def test_a_renewed_base_gives_a_second_image(registry: OwnRegistry, first: str) -> None:
    said, image = run_script(registry, REBUILD_EXPORTER="true")

    assert "from the present base images" in said
    digest = image.removeprefix(f"{IMAGE}@")
    dated = {tag: each for tag, each in registry.list_tags(REPOSITORY).items() if tag.startswith("source-")}
    assert image != first
    assert set(dated.values()) == {digest}
    assert re.fullmatch(r"(source-[0-9a-f]{16}),\1-built-\d{8}", ",".join(sorted(dated)))
