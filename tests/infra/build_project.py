"""A project of the mock of Google Cloud in which the build's own scripts deploy and destroy."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import IO, Self

from tests.infra.build_scripts import BUILD, ROOT
from tests.infra.mock_google_cloud import PROJECT
from tests.infra.terraform_cli import TERRAFORM
from tests.program_runs import run_program

TERRAFORM_SCRIPT = "provision-07-terraform.sh"
INPUTS = {
    "PROJECT_ID": PROJECT,
    "REGION": "us-east5",
    "SERVICES_REGION": "us-central1",
    "ZONE": "us-east5-b",
    "CLUSTER_NAME": "training",
    "NETWORK_NAME": "training",
    "SUBNET_NAME": "training",
    "ARTIFACT_REPOSITORY_BUCKET_NAME": "training-artifacts",
    "IMAGE_REPOSITORY": "training-images",
}


def copy_source(folder: Path) -> Path:
    """Copy what the scripts need of this project, and return where.

    The lock files stay out: a mirror's provider may be built from source, and then has another
    checksum.
    """
    folder.mkdir(parents=True)
    for name in ("infra", "shared", "functions", "exporter", "requirements", "requirements.txt", "pyproject.toml"):
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, folder / name, ignore=shutil.ignore_patterns(".terraform*"))
        else:
            shutil.copy(path, folder / name)
    return folder


class Project:
    """One deployment in a project of the mock: its source, its build folder, and its inputs.

    Args:
        source: A copy of this project, in which scripts run.
        build: The folder for what the scripts make.
        environ: The environment in which gcloud and terraform reach the mock.
        inputs: Differences to `INPUTS`.
    """

    def __init__(self, source: Path, build: Path, environ: dict[str, str], **inputs: str) -> None:
        self.source, self.build = source, build
        self.environ = environ | INPUTS | inputs | {"BUILD_FOLDER": str(build)}

    @classmethod
    def make(cls, folder: Path, environ: dict[str, str], **inputs: str) -> Self:
        """Make one with a source and a build folder of its own."""
        return cls(copy_source(folder / "source"), folder / "build", environ, **inputs)

    def run(self, script: str, *, fails: bool = False, **inputs: str) -> str:
        """Run one script and return what it said."""
        path = self.source / BUILD.relative_to(ROOT) / script
        done = run_program("bash", path, cwd=self.source, env=self.environ | inputs, seconds=1500)
        assert (done.returncode != 0) == fails, f"{script}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        return done.stdout + done.stderr

    def prepare(self) -> None:
        """Run the scripts of the provision build that come before Terraform."""
        for script in ("check-inputs.sh", "provision-01-apis.sh", "provision-02-state-bucket.sh"):
            self.run(script)
        for script in ("provision-03-functions.sh", "provision-04-image-repository.sh"):
            self.run(script)

    def provision(self) -> None:
        """Run the provision build up to Terraform."""
        self.prepare()
        self.run(TERRAFORM_SCRIPT)

    def is_up_to_date(self, **inputs: str) -> bool:
        """Run Terraform's script again and return whether it had nothing to change."""
        return "No changes" in self.run(TERRAFORM_SCRIPT, fails=False, **inputs)

    def destroy(self, **inputs: str) -> str:
        """Run the destroy build's Terraform, which must leave an empty state; return its words."""
        self.run("terraform-init.sh")
        answer = self.run("destroy-05-terraform.sh", fails=False, **inputs)
        assert self.list_addresses() == []
        return answer

    def read_plan(self) -> dict[str, list[str]]:
        """Return what the last plan does, by address."""
        plan = json.loads((self.build / "terraform-plan.json").read_text())
        return {each["address"]: each["change"]["actions"] for each in plan["resource_changes"]}

    def start(self, script: str, log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start one script, and all that it starts, as a process group of its own."""
        command = ["bash", str(self.source / BUILD.relative_to(ROOT) / script)]
        return subprocess.Popen(
            command, cwd=self.source, env=self.environ, stdout=log, stderr=log, start_new_session=True
        )

    def terraform(self, *words: str, root: Path | None = None) -> str:
        """Run terraform on the state that the last script prepared, or in another root."""
        if root is None:
            name = "provisioner" if self.environ.get("CREATE_ENVIRONMENT") == "false" else "complete"
            root = self.source / TERRAFORM.relative_to(ROOT) / name
        environ = self.environ | {"TF_DATA_DIR": str(self.build / "terraform")}
        return run_program("terraform", f"-chdir={root}", *words, env=environ, seconds=300, succeeds=True).stdout

    def gcloud(self, *words: str) -> str:
        """Run gcloud and return what it printed."""
        return run_program("gcloud", *words, env=self.environ, succeeds=True).stdout

    def list_buckets(self) -> list[str]:
        """Return the names of the project's buckets."""
        return self.gcloud("storage", "buckets", "list", "--format=value(name)").split()

    def list_addresses(self) -> list[str]:
        """Return the resources in the state, without those that are only read."""
        return [each for each in self.terraform("state", "list").splitlines() if ".data." not in each]
