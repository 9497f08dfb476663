"""The Cloud Build files: by the public schema, by gcloud's own loader, and by rules of ours."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.infra.build_scripts import BUILD, DESTROY, PROVISION, ROOT, find_sdk, list_inputs, load
from tests.program_runs import run_program, run_python

FILES = pytest.mark.parametrize("path", [PROVISION, DESTROY], ids=["provision", "destroy"])
EXPORTER = ("exporter/requirements.txt", "exporter/Dockerfile")
NAMED = ("functions/main.py", "requirements.txt", ".dockerignore", *EXPORTER)


def find_inputs() -> set[str]:
    """Return the inputs that the scripts know, as substitutions."""
    return {f"_{name}" for name in list_inputs()}


@FILES
def test_a_build_file_fits_the_public_schema(path: Path) -> None:
    done = run_python("-m", "check_jsonschema", "--builtin-schema", "vendor.cloudbuild", path)
    assert done.returncode == 0, done.stdout


@FILES
def test_every_image_has_an_exact_version(path: Path) -> None:
    for step in load(path)["steps"]:
        assert re.fullmatch(r"[\w.\-/]+:v?\d+\.\d+\.\d+(-\w+)*(@sha256:[0-9a-f]{64})?", step["name"]), step["name"]


@FILES
def test_every_step_runs_one_script_and_no_shell_text(path: Path) -> None:
    kind = path.name.split(".")[1]
    steps = [step["args"][0] for step in load(path)["steps"] if f"/{kind}-" in step["args"][0]]
    assert steps == sorted(str(each.relative_to(ROOT)) for each in BUILD.glob(f"{kind}-*.sh"))
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
    assert content["options"]["substitutionOption"] == "ALLOW_LOOSE", "no step names them"
    assert content["options"]["logging"] == "LEGACY", "gcloud shows this log while a build runs"
    assert declared <= find_inputs()
    assert find_inputs() - declared <= {"_FORCE", "_DELETE_STATE", "_DELETE_ARTIFACTS"}
    assert all(isinstance(value, str) for value in content["substitutions"].values())


def test_destroy_takes_the_substitutions_of_provision_with_the_same_defaults() -> None:
    provision, destroy = load(PROVISION)["substitutions"], load(DESTROY)["substitutions"]
    assert {name: destroy[name] for name in provision} == provision


@pytest.mark.tool
def test_what_is_uploaded_is_what_the_build_reads() -> None:
    listing = ("meta", "list-files-for-upload", ROOT)
    files = set(run_program(find_sdk() / "bin/gcloud", *listing, succeeds=True).stdout.split())
    needed: list[Any] = [*BUILD.rglob("*.sh"), *BUILD.rglob("*.py"), *BUILD.rglob("go.*")]
    needed += [
        *(ROOT / "shared").rglob("*.py"),
        *(ROOT / "shared").rglob("*.json"),
        *(ROOT / "exporter").rglob("*.py"),
    ]
    needed += [*(ROOT / "infra/helm").rglob("*.yaml"), *(ROOT / "infra/terraform").rglob("*.tf")]
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
        quiet = {
            "check-inputs",
            "functions",
            "program-terraform",
            "program-helm",
            "program-go",
            "terraform-init",
            "python",
        }
        assert {step["id"] for step in load(path)["steps"]} - quiet <= named


def test_the_release_has_only_the_rights_it_needs_and_fixed_actions() -> None:
    workflow = load(ROOT / ".github/workflows/release.yml")
    (job,) = workflow["jobs"].values()
    used = [step["uses"] for step in job["steps"] if "uses" in step]

    assert workflow["permissions"] == {}
    assert job["permissions"] == {"contents": "write", "packages": "write", "id-token": "write"}
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", each) for each in used)
    # A name in the text of a command could be a command itself.
    assert [step["run"] for step in job["steps"] if "${{" in step.get("run", "")] == []
