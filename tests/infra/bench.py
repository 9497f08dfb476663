"""Runs the build's scripts, and bootstrap.sh, with stub programs on PATH."""

import copy
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.infra.pretended_cloud import Cloud, Gcloud, stubs
from tests.program_runs import run_program

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "infra/build"
PROVISION = ROOT / "cloudbuild.provision.yaml"
DESTROY = ROOT / "cloudbuild.destroy.yaml"
NEEDED = (
    *("bash", "sh", "sed", "grep", "cat", "cp", "rm", "mkdir", "basename", "dirname", "head", "sleep", "env"),
    *("find", "sort", "xargs", "sha256sum", "cut", "tr", "tee", "diff"),
)
"""What the scripts use beside the stubs: what every image of the build has."""
PUBLIC = {
    "_TF_STATE_BUCKET": "old-state",
    "_TF_STATE_PREFIX": "tpu-environment",
    "_REGION": "us-east5",
    "_TENSORBOARD_REGION": "us-central1",
    "_ZONE": "us-east5-b",
    "_ARTIFACT_REPOSITORY_BUCKET_NAME": "training-artifacts",
    "_NETWORK_NAME": "tpu-network",
    "_SUBNET_NAME": "tpu-subnet",
    "_CLUSTER_NAME": "tpu-cluster",
    "_NAMESPACE": "tpu-training",
    "_TPU_TYPE": "v5litepod-16",
    "_NUM_TPU_POOLS": "1",
    "_NUM_OF_CHIPS": "16",
    "_JOBSET_API_VERSION": "v0.11.1",
    "_KUEUE_API_VERSION": "v0.15.2",
}
"""The public environment's command line, with versions that can be had."""
STATE = {name: PUBLIC[name] for name in ("_TF_STATE_BUCKET", "_TF_STATE_PREFIX")}


def load(path: Path) -> dict[str, Any]:
    """Return a build file."""
    content: dict[str, Any] = yaml.safe_load(path.read_text())
    return content


def list_scripts(path: Path) -> list[str]:
    """Return the scripts that a build file runs, in order."""
    return [Path(step["args"][0]).name for step in load(path)["steps"] if step["entrypoint"] == "bash"]


@dataclass(frozen=True)
class Bench:
    """A pretended cloud, a copy of the sources, and a build folder in which scripts run."""

    folder: Path
    cloud: Cloud

    @property
    def calls(self) -> list[str]:
        """Every call of a program as one line."""
        return [" ".join(call) for call in self.cloud.calls]

    @property
    def state(self) -> dict[str, Any]:
        """What is there, without what was done to make it so."""
        buckets = self.folder / "gs"
        objects = sorted(str(path.relative_to(buckets)) for path in buckets.rglob("*") if path.is_file())
        return copy.deepcopy(vars(self.cloud)) | {"calls": [], "objects": objects}

    def write_inputs(self, text: str | None) -> None:
        """Put a deployment.tfvars into the source, or take it away."""
        path = self.folder / "source/deployment.tfvars"
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text)

    def read_variables(self) -> dict[str, str]:
        """Return the substitutions that Terraform was given last."""
        content = json.loads((self.folder / "build/inputs/substitutions.json").read_text())
        values: dict[str, str] = content["substitutions"]
        return values

    def run(
        self, script: str, *words: str, code: int | None = 0, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run one script of infra with these variables; it must end so, if that is known."""
        own = {
            "PATH": str(self.folder / "bin"),
            "HOME": str(self.folder),
            "LANG": os.environ.get("LANG", "C.UTF-8"),
            "BUILD_FOLDER": str(self.folder / "build"),
            "RETRY_PAUSE_SECONDS": "0",
            "PAUSE_SECONDS": "0",
            "PROJECT_ID": "a-project",
            "LOCATION": "us-east5",
        }
        path = self.folder / "source/infra" / script
        done = run_program(
            "bash", path, *words, env=own | variables, cwd=path.parents[1], input=variables.get("ANSWER")
        )
        assert code in (None, done.returncode), f"{script}:\n{done.stdout}{done.stderr}"
        return done

    def build(self, path: Path, code: int = 0, /, **substitutions: str) -> str:
        """Run a build file's scripts as Cloud Build does, and return what they say."""
        declared = load(path)["substitutions"]
        assert not substitutions.keys() - declared.keys()
        text, ended = "", 0
        for script in list_scripts(path):
            done = self.run(f"build/{script}", code=None, **(declared | substitutions))
            text, ended = text + done.stdout + done.stderr, done.returncode
            if ended:
                break
        assert ended == code, text
        return text

    def refuse(self, path: Path, **substitutions: str) -> str:
        """Run a build that must fail, up to that step, and return what it says."""
        return self.build(path, 1, **substitutions)


@contextmanager
def open_bench(folder: Path, gcloud: Gcloud | None = None) -> Iterator[Bench]:
    """Open one with an empty cloud, and the state's bucket that bootstrap.sh makes."""
    cloud = Cloud(folder / "gs", gcloud)
    for bucket in ("old-state", "a-project-tpu-provisioner-state"):
        (folder / "gs" / bucket).mkdir(parents=True)
    source = folder / "source"
    source.mkdir()
    for name in ("shared", "exporter"):
        (source / name).symlink_to(ROOT / name)
    # The scripts find their top folder by their own place, so these are copies.
    ignored = shutil.ignore_patterns(".terraform", "__pycache__")
    shutil.copytree(ROOT / "infra", source / "infra", ignore=ignored)
    (source / "infra/build/queueing.py").write_text("")  # tests/infra/test_queueing.py has it
    with stubs(folder / "bin", cloud.answer):
        for name in NEEDED:
            (folder / "bin" / name).symlink_to(shutil.which(name) or f"no {name}")
        yield Bench(folder, cloud)
