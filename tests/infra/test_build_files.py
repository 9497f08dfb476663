"""The Cloud Build files: by the public schema, by gcloud's own loader, and by rules of ours."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.infra.build_scripts import BUILD, DESTROY, PROVISION, ROOT, find_sdk, list_inputs, load
from tests.program_runs import run_program, run_python

FILES = pytest.mark.parametrize("path", [PROVISION, DESTROY], ids=["provision", "destroy"])
EXPORTER = ("exporter/requirements.txt", "exporter/Dockerfile")
NAMED = ("functions/main.py", "requirements.txt", ".dockerignore", *EXPORTER)
LOADER = """
import sys
from googlecloudsdk.api_lib.cloudbuild import cloudbuild_util, config
build = config.LoadCloudbuildConfigFromPath(sys.argv[1], cloudbuild_util.GetMessagesModule())
print(len(build.steps), build.timeout, build.options.automapSubstitutions, build.options.logging)
"""
STREAM = """
import sys
from googlecloudsdk.api_lib.cloudbuild import cloudbuild_util, config, logs
from googlecloudsdk.core import resources
messages = cloudbuild_util.GetMessagesModule()
build = config.LoadCloudbuildConfigFromPath(sys.argv[1], messages)
build.status = messages.Build.StatusValueValuesEnum.SUCCESS
class Tailer:
    def FromBuild(build, out=None): return Tailer()
    def Tail(self): print("streams", build.options.defaultLogsBucketBehavior)
    def Stop(self): pass
logs.GCSLogTailer = logs.GCLLogTailer = Tailer
client = logs.CloudBuildClient(client=object(), messages=messages)
client.GetBuild = lambda build_ref: build
client.Stream(None)
"""
"""gcloud's own decision whether it shows the log of a running build (its cloudbuild/logs.py)."""


def check_schema(path: Path) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "check_jsonschema", "--builtin-schema", "vendor.cloudbuild", path)


def find_inputs() -> set[str]:
    """Return the inputs that the scripts know, as substitutions."""
    return {f"_{name}" for name in list_inputs()}


@FILES
def test_a_build_file_fits_the_public_schema(path: Path) -> None:
    done = check_schema(path)
    assert done.returncode == 0, done.stdout


def test_the_public_schema_catches_a_misspelt_key_and_a_timeout_in_minutes(tmp_path: Path) -> None:
    broken = tmp_path / "cloudbuild.yaml"
    broken.write_text(PROVISION.read_text().replace("timeout: 7200s", "timeout: 120m").replace("args:", "arg:"))
    done = check_schema(broken)

    assert done.returncode == 1
    assert "timeout" in done.stdout
    assert "'arg'" in done.stdout


@FILES
def test_every_image_has_an_exact_version(path: Path) -> None:
    for step in load(path)["steps"]:
        assert re.fullmatch(r"[\w.\-/]+:v?\d+\.\d+\.\d+(-\w+)*(@sha256:[0-9a-f]{64})?", step["name"]), step["name"]


WITHOUT_DIGEST = {"gcr.io/google.com/cloudsdktool/google-cloud-cli:528.0.0", "gcr.io/cloud-builders/docker:24.0.9"}
"""No public file with their digests was found (docs/upgrade.md, "Images by digest")."""


def test_every_image_but_these_two_has_a_digest() -> None:
    names = {step["name"] for path in (PROVISION, DESTROY) for step in load(path)["steps"]}
    assert {name for name in names if "@sha256:" not in name} == WITHOUT_DIGEST


@FILES
def test_a_build_file_allows_substitutions_that_no_step_names(path: Path) -> None:
    """Steps read them from the environment, so Cloud Build may otherwise refuse them as unused."""
    assert load(path)["options"]["substitutionOption"] == "ALLOW_LOOSE"


@FILES
def test_the_example_at_the_top_is_that_of_the_walk(path: Path) -> None:
    walk = (ROOT / "docs/deploy.md").read_text()
    found = re.search(r"REGION=(\S+) ZONE=(\S+)", walk)
    assert found
    assert f"_REGION={found[1]},_ZONE={found[2]},..." in path.read_text()
    assert "has no Cloud Scheduler" in walk
    assert found[1] != "us-east5"  # it has none, so it needs _SERVICES_REGION


def test_both_build_files_use_the_same_versions() -> None:
    def images(path: Path) -> set[str]:
        return {step["name"] for step in load(path)["steps"]}

    assert images(DESTROY) <= images(PROVISION)


@FILES
def test_every_step_runs_one_script_and_no_shell_text(path: Path) -> None:
    for step in load(path)["steps"]:
        assert not step.keys() - {"id", "name", "entrypoint", "args", "env"}, step["id"]
        assert "$" not in str(step), f"{step['id']}: a substitution in a command"
        if step["entrypoint"] == "bash":
            assert len(step["args"]) == 1
            assert (ROOT / step["args"][0]).is_file()
        else:  # a copy of a program out of its image
            assert step["id"].startswith("program-")
            assert step["entrypoint"] in ("install", "cp")


@FILES
def test_substitutions_reach_the_scripts_as_variables_and_all_of_them_are_known_there(path: Path) -> None:
    content = load(path)
    declared = set(content["substitutions"])

    assert content["options"]["automapSubstitutions"] is True
    assert declared <= find_inputs()
    assert find_inputs() - declared <= {"_FORCE", "_DELETE_STATE", "_DELETE_ARTIFACTS"}
    assert all(isinstance(value, str) for value in content["substitutions"].values())


def test_every_input_is_read_by_something() -> None:
    text = "".join(path.read_text() for path in sorted(BUILD.glob("*.sh")) + sorted(BUILD.glob("render_*.py")))
    listed = re.sub(r"^INPUTS=\(.*?\)", "", text, flags=re.MULTILINE | re.DOTALL)
    for name in find_inputs():
        assert len(re.findall(rf"\b{name[1:]}\b", listed)) > 2, f"{name} is declared and used by nothing"


def test_destroy_takes_the_substitutions_of_provision_with_the_same_defaults() -> None:
    provision, destroy = load(PROVISION)["substitutions"], load(DESTROY)["substitutions"]
    assert {name: destroy[name] for name in provision} == provision


def test_every_script_is_a_step_of_a_build_or_called_by_one() -> None:
    text = "".join(path.read_text() for path in (PROVISION, DESTROY, *BUILD.glob("*.sh")))
    by_hand = {"deployer.sh", "private-grants.sh", "release.sh"}
    for path in BUILD.glob("*.sh"):
        assert path.name in text or path.name in by_hand, f"{path.name} is run by nothing"


@FILES
def test_steps_are_numbered_in_the_order_in_which_they_run(path: Path) -> None:
    kind = path.name.split(".")[1]
    names = [step["args"][0] for step in load(path)["steps"] if f"/{kind}-" in step["args"][0]]
    assert names == sorted(names)
    assert {Path(name) for name in names} == {each.relative_to(ROOT) for each in BUILD.glob(f"{kind}-*.sh")}


def run_gcloud_python(text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a text with the libraries that gcloud brings."""
    sdk = find_sdk()
    paths = f"import sys; sys.path[:0] = [{str(sdk / 'lib')!r}, {str(sdk / 'lib/third_party')!r}]\n"
    return run_python("-W", "ignore", "-c", paths + text, *arguments)


@pytest.mark.tool
@FILES
def test_gclouds_own_loader_takes_a_build_file(path: Path) -> None:
    done = run_gcloud_python(LOADER, str(path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(len(load(path)["steps"])), "7200s", "True", "LEGACY"]


@pytest.mark.tool
@FILES
def test_gcloud_shows_the_log_while_the_build_runs(path: Path, tmp_path: Path) -> None:
    assert run_gcloud_python(STREAM, str(path)).stdout.split() == ["streams", "REGIONAL_USER_OWNED_BUCKET"]

    silent = tmp_path / path.name
    silent.write_text(path.read_text().replace("logging: LEGACY", "logging: CLOUD_LOGGING_ONLY"))
    assert run_gcloud_python(STREAM, str(silent)).stdout == ""


@FILES
def test_the_bucket_of_the_log_belongs_to_the_project(path: Path) -> None:
    """A build with an account of its own must name a bucket, or have this one, or log nowhere else:
    https://cloud.google.com/build/docs/securing-builds/configure-user-specified-service-accounts.
    """
    options = load(path)["options"]
    assert options["logging"] == "LEGACY"
    assert options["defaultLogsBucketBehavior"] == "REGIONAL_USER_OWNED_BUCKET"
    assert "-$REGION-cloudbuild-logs" in (ROOT / "docs/deploy.md").read_text()


@pytest.mark.tool
@pytest.mark.parametrize(("old", "new"), [("timeout:", "patience:"), ("_REGION:", "REGION:")])
def test_gclouds_own_loader_refuses_what_the_schema_misses(tmp_path: Path, old: str, new: str) -> None:
    broken = tmp_path / "cloudbuild.yaml"
    broken.write_text(PROVISION.read_text().replace(old, new))
    done = run_gcloud_python(LOADER, str(broken))
    assert done.returncode != 0
    assert new.rstrip(":") in done.stderr


@pytest.mark.tool
def test_what_is_uploaded_is_what_the_build_reads() -> None:
    listing = ("meta", "list-files-for-upload", ROOT)
    files = set(run_program(find_sdk() / "bin/gcloud", *listing, succeeds=True).stdout.split())
    needed: list[Any] = [*BUILD.rglob("*.sh"), *BUILD.rglob("*.py"), *BUILD.rglob("go.*")]
    needed += [*(ROOT / "shared").rglob("*.py"), *(ROOT / "exporter").rglob("*.py")]
    needed += [*(ROOT / "infra/kubernetes").rglob("*.yaml"), *(ROOT / "infra/terraform").rglob("*.tf")]
    needed += [*(ROOT / "infra/terraform").rglob(".terraform.lock.hcl")]
    needed += [ROOT / name for name in NAMED]
    missing = {str(path.relative_to(ROOT)) for path in needed} - files

    assert not missing
    tops = {name.split("/")[0] for name in files}
    assert not tops & {".git", ".venv", "tests", "build", ".local", "docs"}


def test_the_walk_knows_every_substitution_and_every_step() -> None:
    walk = (ROOT / "docs/deploy.md").read_text()
    declared = load(DESTROY)["substitutions"].keys() | load(PROVISION)["substitutions"].keys()

    assert set(re.findall(r"`(_[A-Z_]+)`", walk)) == declared
    assert set(re.findall(r"[=, ](_[A-Z][A-Z_]+)=", walk)) <= declared
    named = set(re.findall(r"`([a-z-]+)`", walk))
    for path in (PROVISION, DESTROY):
        quiet = {"check-inputs", "functions", "program-terraform", "program-go", "terraform-init", "python"}
        assert {step["id"] for step in load(path)["steps"]} - quiet <= named


def test_five_commands_lead_from_an_empty_project_to_the_first_slice() -> None:
    walk = (ROOT / "docs/deploy.md").read_text()
    way, found, _ = walk.partition("\n## 1. ")[2].partition("examples/first-slice.yaml\n")
    commands = [each.split()[0] for each in re.findall(r"^\$ (.*)$", way, re.MULTILINE)]

    assert found
    assert [each for each in commands if each != "export"] == [
        *("gcloud", "infra/build/deployer.sh", "gcloud", "gcloud", "kubectl")
    ]
