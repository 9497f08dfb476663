"""Runs the build's scripts in the order of the build files, with stub programs on PATH.

Inputs come by environment only.
"""

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from tests.infra import build_cloud
from tests.program_runs import run_program

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "infra/build"
PROVISION = ROOT / "cloudbuild.provision.yaml"
DESTROY = ROOT / "cloudbuild.destroy.yaml"
NEEDED = (
    *("bash", "sh", "sed", "grep", "cat", "mv", "rm", "mkdir", "touch", "basename", "dirname", "head", "sleep"),
    *("find", "sort", "xargs", "sha256sum", "cut", "cp", "date"),
)
"""What the scripts use beside the stubs: what every image of the build has."""

OLD_COMMAND_LINE = {
    "_TF_STATE_BUCKET": "old-state-bucket",
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
"""The public environment's, with versions that can be had."""
DEPLOYMENT = {"PROJECT_ID": "a-project", "BUILD_FOLDER": "/b", "NAME": "tpu-provisioner"}
"""The inputs that every rendering has."""
BESIDE_A_CLUSTER = {
    "_CREATE_ENVIRONMENT": "false",
    "_REGION": "us-east5",
    "_CLUSTER_NAME": "there-already",
    "_NODE_SERVICE_ACCOUNTS": "nodes@a-project.iam.gserviceaccount.com",
}


def load(path: Path) -> dict[str, Any]:
    """Return a build file."""
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


def list_inputs() -> list[str]:
    """Return the inputs that the scripts know."""
    listed = re.search(r"^INPUTS=\((.*?)\)", (BUILD / "inputs.sh").read_text(), re.MULTILINE | re.DOTALL)
    assert listed
    return listed[1].split()


def by_name(substitutions: dict[str, str]) -> dict[str, str]:
    """Return substitutions as the inputs that the scripts read."""
    return {name.removeprefix("_"): value for name, value in substitutions.items()}


def find_kubectl() -> str:
    """Return the path of the program, or fail the test with what to do."""
    found = shutil.which("kubectl")
    if found is None:
        pytest.fail("this test needs kubectl: https://kubernetes.io/docs/tasks/tools/")
    return found


def find_sdk() -> Path:
    """Return the folder that gcloud is installed in, or fail the test with what to do."""
    gcloud = shutil.which("gcloud")
    near = [Path(gcloud).resolve().parents[1], Path("/usr/lib/google-cloud-sdk")] if gcloud else []
    sdk = next((each for each in near if (each / "lib/googlecloudsdk").is_dir()), None)
    if sdk is None:
        pytest.fail("this test needs gcloud with its libraries: https://cloud.google.com/sdk/docs/install")
    return sdk


def list_scripts(path: Path) -> list[tuple[str, dict[str, str]]]:
    """Return the scripts that a build file runs, in order, each with the variables of its step."""
    found = []
    for step in load(path)["steps"]:
        if step["entrypoint"] == "bash":
            variables = dict(each.split("=", 1) for each in step.get("env", ()))
            found.append((Path(step["args"][0]).name, variables))
    return found


@dataclass(frozen=True)
class Bench:
    """A pretended cloud and a build folder, in which scripts run."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Self:
        """Make one with an empty cloud."""
        build_cloud.install(folder / "bin")
        for name in NEEDED:
            found = shutil.which(name)
            assert found, name
            (folder / "bin" / name).symlink_to(found)
        (folder / "world.json").write_text(json.dumps(build_cloud.EMPTY))
        python = folder / "build/python/bin/python"  # which python-environment.sh does not make again
        python.parent.mkdir(parents=True)
        python.symlink_to(shutil.which("true") or "")
        return cls(folder)

    @property
    def world_file(self) -> Path:
        return self.folder / "world.json"

    @property
    def world(self) -> dict[str, Any]:
        """What is there, and what was done to make it so."""
        found: dict[str, Any] = json.loads(self.world_file.read_text())
        return found

    @property
    def calls(self) -> list[list[str]]:
        """Every call of a program, with its words."""
        calls: list[list[str]] = self.world["calls"]
        return calls

    @property
    def grants(self) -> list[tuple[str, str, str]]:
        """Member, role and object of each grant that was asked for."""
        found = []
        for call in self.calls:
            if "add-iam-policy-binding" in call:
                options = dict(word.partition("=")[::2] for word in call if word.startswith("--"))
                where = call[call.index("add-iam-policy-binding") + 1]
                found.append((options["--member"], options["--role"], where))
        return found

    @property
    def state(self) -> dict[str, Any]:
        """What is there, without what was done to make it so."""
        return self.world | {"calls": [], "objects": self.objects}

    @property
    def objects(self) -> list[str]:
        """The names of all objects in buckets."""
        buckets = self.folder / "gs"
        return sorted(str(path.relative_to(buckets)) for path in buckets.rglob("*") if path.is_file())

    def change(self, **values: Any) -> None:
        """Set some of the world."""
        self.world_file.write_text(json.dumps(self.world | values))

    def step(
        self, script: str, substitutions: dict[str, str], *, code: int = 0
    ) -> subprocess.CompletedProcess[str]:
        """Run a script as a step of the build that it is named after; it must end so."""
        build_file = PROVISION if script.startswith("provision-") else DESTROY
        return self.run(script, self.environ(build_file, substitutions), code=code)

    def apply(
        self, substitutions: dict[str, str], *errors: str, code: int = 0
    ) -> subprocess.CompletedProcess[str]:
        """Run the steps that Terraform's needs, and that one, whose applies fail so in turn."""
        self.change(apply_fails=list(errors), calls=[])
        for script in ("provision-02-state-bucket.sh", "provision-03-functions.sh"):
            self.step(script, substitutions)
        return self.step("provision-07-terraform.sh", substitutions, code=code)

    def run(self, script: str, environ: dict[str, str], code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run one script with nothing but these variables, and those that the stubs need.

        It must end so.
        """
        own = {
            "PATH": str(self.folder / "bin"),
            "HOME": str(self.folder),
            "LANG": os.environ.get("LANG", "C.UTF-8"),
            "BUILD_FOLDER": str(self.folder / "build"),
            "BUILD_ID": "b-1",
            "RETRY_PAUSE_SECONDS": "0",
            build_cloud.WORLD: str(self.world_file),
            "PRETENDED_MODULES": str(self.folder / "modules"),
        }
        done = run_program("bash", BUILD / script, env=own | environ, cwd=ROOT)
        assert code == done.returncode, f"{script}:\n{done.stdout}{done.stderr}"
        return done

    def run_all(self, build_file: Path, substitutions: dict[str, str]) -> list[str]:
        """Run a build file's scripts as Cloud Build does; return their output. All must succeed."""
        environ = self.environ(build_file, substitutions)
        scripts = list_scripts(build_file)
        return [self.run(script, environ | stubbed(variables)).stdout for script, variables in scripts]

    def environ(self, build_file: Path, substitutions: dict[str, str]) -> dict[str, str]:
        """Return what Cloud Build would put into a step's environment."""
        declared: dict[str, str] = load(build_file)["substitutions"]
        assert not substitutions.keys() - declared.keys()
        return declared | substitutions | {"PROJECT_ID": "a-project"}


def stubbed(variables: dict[str, str]) -> dict[str, str]:
    """Return a step's own variables, with the Python that removes pools replaced by its stub."""
    return {name: "pools" if name == "PYTHON" else value for name, value in variables.items()}
