"""The artifacts of a release: what release.sh makes, signs and refuses, and its workflow.

docker, helm and cosign are stubs here, which write down how they were called.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from shared.version import VERSION
from tests.infra.build_scripts import ROOT
from tests.program_runs import run_program

REGISTRY = "ghcr.io/owner/tpu-provisioner"
DIGEST, CHART_DIGEST = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
STUBS = {
    "docker": """for word in "$@"; do case $word in --metadata-file=*)
printf '{"containerimage.digest": "%s"}' "$IMAGE_DIGEST" >"${word#*=}";; esac; done""",
    "helm": """case $1 in
package) cp "$2/values.yaml" "$CALLS.values"; : >"$4/tpu-provisioner-exporter-$VERSION.tgz" ;;
push) echo "Digest: $CHART_DIGEST" >&2 ;;
esac""",
    "cosign": """for word in "$@"; do case $word in *.sigstore.json) : >"$word";; esac; done""",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A clone with what is in the working tree, committed and without a tag."""
    clone = tmp_path / "checkout"
    git(ROOT, "clone", "--quiet", "--shared", "--no-tags", str(ROOT), str(clone))
    for name in ("infra/build/release.sh", "infra/build/inputs.sh"):
        (clone / name).write_bytes((ROOT / name).read_bytes())
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--allow-empty", "--message=x")
    return clone


def git(folder: Path, *words: str) -> None:
    someone = ("-c", "user.name=a", "-c", "user.email=a@b.io")
    run_program("git", "-C", folder, *someone, *words, succeeds=True)


def release(checkout: Path) -> subprocess.CompletedProcess[str]:
    programs = checkout.parent / "bin"
    programs.mkdir(exist_ok=True)
    for name, text in STUBS.items():
        stub = programs / name
        stub.write_text(f'#!/bin/sh\nprintf \'%s\\n\' "{name} $*" >>"$CALLS"\n{text}\n')
        stub.chmod(0o755)
    own = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(checkout.parent),
        "CALLS": str(checkout.parent / "calls"),
        "BUILD_FOLDER": str(checkout.parent / "build"),
        "PYTHON": sys.executable,
        "IMAGE_DIGEST": DIGEST,
        "CHART_DIGEST": CHART_DIGEST,
        "VERSION": VERSION,
        "RELEASE_REGISTRY": REGISTRY,
    }
    return run_program("bash", checkout / "infra/build/release.sh", env=own)


def test_a_release_signs_each_artifact_by_its_digest_and_names_them_all(checkout: Path) -> None:
    refused = release(checkout)
    assert f"does not have the tag v{VERSION}" in refused.stderr
    assert not (checkout.parent / "calls").exists()
    git(checkout, "tag", "--annotate", "--message=x", f"v{VERSION}")
    done = release(checkout)
    assert done.returncode == 0, done.stderr
    folder, calls = checkout.parent / "build/release", (checkout.parent / "calls").read_text().splitlines()

    image, chart = f"{REGISTRY}/exporter@{DIGEST}", f"{REGISTRY}/charts/tpu-provisioner-exporter@{CHART_DIGEST}"
    told = json.loads((folder / "release.json").read_text())
    archive = told["functions_archive"]
    assert told == {
        "version": VERSION,
        "exporter_image": image,
        "chart": chart,
        "functions_archive": f"functions-{hashlib.sha256((folder / archive).read_bytes()).hexdigest()[:16]}.zip",
    }
    assert f"cosign sign --yes {image}" in calls
    assert f"cosign sign --yes {chart}" in calls
    assert any(call.startswith("cosign sign-blob") and call.endswith(f"/{archive}") for call in calls)
    assert any("--sbom=true" in call and "--provenance=mode=max" in call for call in calls)
    assert yaml.safe_load((checkout.parent / "calls.values").read_text())["image"] == image
    listed = {line.split()[1] for line in (folder / "SHA256SUMS").read_text().splitlines()}
    assert listed == {archive, "release.json", f"tpu-provisioner-exporter-{VERSION}.tgz"}
    assert f"_EXPORTER_IMAGE={image}" in done.stdout


def test_the_workflow_has_only_the_rights_it_needs_and_fixed_actions() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    (job,) = workflow["jobs"].values()

    assert workflow["permissions"] == {}
    assert job["permissions"] == {"contents": "write", "packages": "write", "id-token": "write"}
    assert all(
        re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step.get("uses", "a/b@" + "0" * 40)) for step in job["steps"]
    )
    # A name in the text of a command could be a command itself.
    assert [step["run"] for step in job["steps"] if "${{" in step.get("run", "")] == []
