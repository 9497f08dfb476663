"""JobSet and Kueue come from their published modules, and only with the content of go.sum."""

import io
import json
import zipfile
from pathlib import Path

import pytest

from infra.build import queueing
from tests.program_runs import run_program


def a_module(**files: str) -> bytes:
    """A module's zip as the proxy serves it."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(f"sigs.k8s.io/jobset@v0.11.1/{name.replace('__', '/')}", text)
    return content.getvalue()


def test_another_content_than_that_of_the_checksum_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the module proxy served something else than go\.sum says"):
        queueing.unpack(a_module(config__x="evil"), "jobset", "v0.11.1", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_manifests_get_the_releases_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = a_module(config__default__kustomization="x", other__y="z")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        monkeypatch.setattr(queueing, "find_sum", lambda *_: queueing.hash_module(archive))
        queueing.unpack(content, "jobset", "v0.11.1", tmp_path)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["config", "kustomization.yaml"]
    (image,) = json.loads((tmp_path / "kustomization.yaml").read_text())["images"]
    assert (image["newName"], image["newTag"]) == ("registry.k8s.io/jobset/jobset", "v0.11.1")


@pytest.mark.cluster
@pytest.mark.tool
@pytest.mark.parametrize(("product", "version"), [("jobset", "v0.11.1"), ("kueue", "v0.15.2")])
def test_a_published_module_has_go_s_own_hash_and_is_built(product: str, version: str, tmp_path: Path) -> None:
    module = f"sigs.k8s.io/{product}@{version}"
    said = run_program("go", "mod", "download", "-json", module, cwd=tmp_path, succeeds=True).stdout
    queueing.unpack(Path(json.loads(said)["Zip"]).read_bytes(), product, version, tmp_path)

    text = run_program("kubectl", "kustomize", tmp_path, succeeds=True).stdout
    assert f"image: registry.k8s.io/{product}/{product}:{version}" in text
